//! Light, dark, or as the system has it.

use gloo::{
    events::EventListener,
    storage::{LocalStorage, Storage},
};
use web_sys::MediaQueryList;

const KEY: &str = "theme";

/// What a person chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    System,
    Light,
    Dark,
}

impl Theme {
    pub(crate) const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::System => "System colours",
            Self::Light => "Light",
            Self::Dark => "Dark",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == name)
    }

    /// What was chosen the last time.
    pub(crate) fn stored() -> Self {
        LocalStorage::get::<String>(KEY)
            .ok()
            .and_then(|name| Self::from_name(&name))
            .unwrap_or(Self::System)
    }

    /// Remembers the choice, and tells the style sheet.
    pub(crate) fn apply(self) {
        let dark = match self {
            Self::System => prefers_dark().is_some_and(|query| query.matches()),
            Self::Light => false,
            Self::Dark => true,
        };
        // Neither can fail in a way that a person would notice.
        let _ =
            gloo::utils::document_element().set_attribute("data-theme", if dark { "dark" } else { "light" });
        let _ = LocalStorage::set(KEY, self.name());
    }

    /// Tells when the system changes its mind.
    pub(crate) fn on_system_change(told: impl Fn() + 'static) -> Option<EventListener> {
        let query = prefers_dark()?;
        Some(EventListener::new(&query, "change", move |_| told()))
    }
}

fn prefers_dark() -> Option<MediaQueryList> {
    gloo::utils::window()
        .match_media("(prefers-color-scheme: dark)")
        .ok()?
}
