//! All pictures on one page that needs nothing else.

use crate::behind::Behind;
use maud::{DOCTYPE, PreEscaped, html};

const STYLE: &str = "body { font-family: Helvetica, Arial, sans-serif; color: #222; margin: 2rem auto; max-width: 1200px; \
                     padding: 0 1rem } svg { width: 100%; height: auto; border: 1px solid #e0e0e0 } figure { margin: 2rem 0 } \
                     figcaption { color: #555; margin-top: .5rem } dt { float: left; clear: left; width: 7rem; color: #555 } \
                     dd { margin: 0 0 .3rem 7rem }";

/// A picture with what is said below it.
pub(crate) struct Figure<'f> {
    pub(crate) svg: &'f str,
    pub(crate) caption: &'static str,
}

pub(crate) fn html(behind: &Behind, figures: &[Figure<'_>]) -> String {
    let Behind { model, accounting, version, device, date } = behind;
    let facts = [("model", model.as_str()), ("accounting", accounting), ("counted by", version), ("device", device)];
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Memory of " (model) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Memory of " (model) }
                dl {
                    @for (name, fact) in facts { dt { (name) } dd { (fact) } }
                    dt { "date" } dd { (date) }
                }
                @for figure in figures {
                    figure role="img" aria-label=(figure.caption) {
                        (PreEscaped(figure.svg))
                        figcaption { (figure.caption) }
                    }
                }
            }
        }
    };
    page.into_string() + "\n"
}
