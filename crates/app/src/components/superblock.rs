//! The superblock: every field explained.

use view::explore::Overview;
use yew::{Context, Html, html};

use super::{findings, hex};
use crate::app::App;

pub(crate) fn view(overview: &Overview, context: &Context<App>) -> Html {
    html! {
        <>
            <h2 class="big">{ "Superblock" }</h2>
            { findings::list(&overview.findings, "No errors in the superblock", context) }
            { hex::fields(&overview.superblock, context) }
        </>
    }
}
