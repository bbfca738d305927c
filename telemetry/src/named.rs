//! Closed lists whose members have a name, a metric and a sentence that describes each.

/// Makes the enum, with `ALL`, `name()`, `metric()` and `help()`; the metric is the name behind a prefix.
macro_rules! named {
    (
        $(#[doc = $about:literal])+
        $list:ident, $prefix:literal;
        $($(#[doc = $doc:literal])+ $variant:ident => $name:literal,)+
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $list {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $list {
            /// All of them, in the order of their discriminants.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name, as it appears in labels and on the page.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The metric's name without `pascaline_` and `_total`.
            #[must_use]
            pub const fn metric(self) -> &'static str {
                match self { $(Self::$variant => concat!($prefix, $name),)+ }
            }

            /// Its meaning, in one sentence.
            #[must_use]
            pub const fn help(self) -> &'static str {
                // A doc comment begins with a blank.
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii_start(),)+ }
            }
        }
    };
}

pub(crate) use named;
