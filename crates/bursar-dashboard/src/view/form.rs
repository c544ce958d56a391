//! Forms. Every act is a form, so that it works without a script and cannot be sent by another site.

use maud::{Markup, html};

use crate::visit::Visit;

/// Shows the hidden field that every form must have.
pub(crate) fn token(visit: &Visit) -> Markup {
    html! { input type="hidden" name="form" value=(visit.form_token); }
}

/// Shows a form that is one button.
pub(crate) fn button(visit: &Visit, action: &str, label: &str, class: &str) -> Markup {
    html! {
        form method="post" action=(visit.url(action)) {
            (token(visit))
            button class={ "btn " (class) } { (label) }
        }
    }
}

/// Shows a button that opens a form with a field for the reason.
pub(crate) fn with_reason(visit: &Visit, action: &str, label: &str, class: &str, fields: &Markup) -> Markup {
    let id = format!("reason-{}", action.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
    let fields = html! {
        (fields)
        div.field {
            label for=(id) { "Reason" }
            input id=(id) name="reason" maxlength="500" placeholder="why, for the journal" autocomplete="off";
        }
    };
    in_menu(visit, action, label, class, &fields)
}

/// Shows a button that opens a form.
pub(crate) fn in_menu(visit: &Visit, action: &str, label: &str, class: &str, fields: &Markup) -> Markup {
    html! {
        details.menu {
            summary class={ "btn " (class) } { (label) }
            div.menu-list.is-right {
                form.form method="post" action=(visit.url(action)) {
                    (token(visit))
                    (fields)
                    div.form-acts { button class={ "btn is-primary " (class) } { (label) } }
                }
            }
        }
    }
}

/// Shows a field of a form with its label.
pub(crate) fn field(name: &str, label: &str, value: &str, placeholder: &str) -> Markup {
    html! {
        div.field {
            label for={ "f-" (name) } { (label) }
            input id={ "f-" (name) } name=(name) value=(value) placeholder=(placeholder) autocomplete="off" spellcheck="false";
        }
    }
}
