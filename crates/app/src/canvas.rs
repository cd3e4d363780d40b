//! Drawing grids: colours by token, sharp on every screen.

use wasm_bindgen::JsCast;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement};

/// A canvas to draw on, in CSS pixels.
pub(crate) struct Pencil {
    pub(crate) context: CanvasRenderingContext2d,
    style: web_sys::CssStyleDeclaration,
}

impl Pencil {
    /// Makes the canvas `height` pixels high and as wide as it is shown, and clears it.
    pub(crate) fn new(canvas: &HtmlCanvasElement, height: f64) -> Option<Self> {
        let window = gloo::utils::window();
        let scale = window.device_pixel_ratio().max(1.0);
        let width = canvas.get_bounding_client_rect().width();
        let (pixels_wide, pixels_high) = ((width * scale) as u32, (height * scale) as u32);
        if canvas.width() != pixels_wide || canvas.height() != pixels_high {
            canvas.set_width(pixels_wide);
            canvas.set_height(pixels_high);
        }
        let context: CanvasRenderingContext2d = canvas.get_context("2d").ok()??.dyn_into().ok()?;
        context.set_transform(scale, 0.0, 0.0, scale, 0.0, 0.0).ok()?;
        context.clear_rect(0.0, 0.0, width, height);
        let style = window
            .get_computed_style(&gloo::utils::document_element())
            .ok()??;
        Some(Self { context, style })
    }

    /// The colour that the style sheet gives this token.
    pub(crate) fn colour(&self, token: &str) -> String {
        self.style
            .get_property_value(&format!("--{token}"))
            .unwrap_or_default()
            .trim()
            .to_owned()
    }

    pub(crate) fn fill(&self, token: &str, [x, y, w, h]: [f64; 4]) {
        self.context.set_fill_style_str(&self.colour(token));
        self.context.fill_rect(x, y, w, h);
    }

    pub(crate) fn outline(&self, token: &str, width: f64, [x, y, w, h]: [f64; 4]) {
        self.context.set_stroke_style_str(&self.colour(token));
        self.context.set_line_width(width);
        self.context.stroke_rect(x, y, w, h);
    }

    /// A stroke from the lower left to the upper right: a pattern for those who do not see the colour.
    pub(crate) fn slash(&self, token: &str, [x, y, w, h]: [f64; 4]) {
        self.context.set_stroke_style_str(&self.colour(token));
        self.context.set_line_width(1.0);
        self.context.begin_path();
        self.context.move_to(x + 1.0, y + h - 1.0);
        self.context.line_to(x + w - 1.0, y + 1.0);
        self.context.stroke();
    }

    pub(crate) fn text(&self, token: &str, font: &str, text: &str, x: f64, y: f64) {
        self.context.set_fill_style_str(&self.colour(token));
        self.context.set_font(font);
        // Text can fail only where the canvas is gone.
        let _ = self.context.fill_text(text, x, y);
    }
}

/// Where the slots of table blocks lie: a block is a small grid, and blocks flow like words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SlotGrid {
    /// Slots per block.
    pub(crate) slots: usize,
    /// Slots in a row of a block.
    columns: usize,
    /// Blocks in a row.
    across: usize,
    cell: [f64; 2],
    /// From one block to the next.
    pitch: [f64; 2],
    /// Room above each block for its label.
    head: f64,
}

impl SlotGrid {
    pub(crate) fn new(width: f64, slots: usize, cell: [f64; 2], head: f64) -> Self {
        let columns = slots.clamp(1, 16);
        let rows = slots.max(1).div_ceil(columns);
        let pitch = [
            columns as f64 * cell[0] + 14.0,
            rows as f64 * cell[1] + head + 8.0,
        ];
        let across = ((width + 14.0) / pitch[0]).floor().max(1.0) as usize;
        Self {
            slots: slots.max(1),
            columns,
            across,
            cell,
            pitch,
            head,
        }
    }

    pub(crate) fn height(&self, blocks: usize) -> f64 {
        blocks.div_ceil(self.across) as f64 * self.pitch[1]
    }

    /// The upper left corner of a block.
    pub(crate) fn corner(&self, block: usize) -> [f64; 2] {
        [
            (block % self.across) as f64 * self.pitch[0],
            (block / self.across) as f64 * self.pitch[1],
        ]
    }

    /// The rectangle of a slot, counted from the first block's first.
    pub(crate) fn cell(&self, index: usize) -> [f64; 4] {
        let [x, y] = self.corner(index / self.slots);
        let slot = index % self.slots;
        let (column, row) = ((slot % self.columns) as f64, (slot / self.columns) as f64);
        let [w, h] = self.cell;
        [x + column * w, y + self.head + row * h, w - 1.5, h - 1.5]
    }

    /// The slot at a point.
    pub(crate) fn at(&self, x: f64, y: f64, count: usize) -> Option<usize> {
        let column = (x / self.pitch[0]).floor();
        let row = (y / self.pitch[1]).floor();
        if x < 0.0 || y < 0.0 || column >= self.across as f64 {
            return None;
        }
        let block = row as usize * self.across + column as usize;
        let (inside_x, inside_y) = (x - column * self.pitch[0], y - row * self.pitch[1] - self.head);
        let (slot_x, slot_y) = (
            (inside_x / self.cell[0]).floor(),
            (inside_y / self.cell[1]).floor(),
        );
        if inside_y < 0.0 || slot_x >= self.columns as f64 {
            return None;
        }
        let slot = slot_y as usize * self.columns + slot_x as usize;
        let index = block * self.slots + slot;
        (slot < self.slots && index < count).then_some(index)
    }

    /// How far one row of slots is from the next.
    pub(crate) fn down(&self) -> usize {
        if self.slots > self.columns {
            self.columns
        } else {
            self.slots * self.across
        }
    }
}

/// Equal cells that flow like letters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CellGrid {
    /// From one cell to the next.
    pub(crate) size: f64,
    /// Cells in a row.
    pub(crate) columns: usize,
}

impl CellGrid {
    pub(crate) fn new(width: f64, size: f64) -> Self {
        Self {
            size,
            columns: ((width / size).floor() as usize).max(1),
        }
    }

    pub(crate) fn height(&self, count: usize) -> f64 {
        count.div_ceil(self.columns).max(1) as f64 * self.size
    }

    /// The rectangle of a cell.
    pub(crate) fn cell(&self, index: usize) -> [f64; 4] {
        let (column, row) = ((index % self.columns) as f64, (index / self.columns) as f64);
        let gap = if self.size > 5.0 { 1.5 } else { 0.5 };
        [
            column * self.size + 0.5,
            row * self.size + 0.5,
            self.size - gap,
            self.size - gap,
        ]
    }

    /// The cell at a point.
    pub(crate) fn at(&self, x: f64, y: f64, count: usize) -> Option<usize> {
        let (column, row) = ((x / self.size).floor(), (y / self.size).floor());
        if x < 0.0 || y < 0.0 || column >= self.columns as f64 {
            return None;
        }
        let index = row as usize * self.columns + column as usize;
        (index < count).then_some(index)
    }
}
