//! Tables of codes: each line gives a variant, its code on the wire and its name.

/// Defines an enum with one byte of code and one name per variant.
macro_rules! codes {
    (
        $(#[$about:meta])*
        pub enum $Name:ident {
            $($(#[$doc:meta])* $Variant:ident = $code:literal $name:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $Name {
            $($(#[$doc])* $Variant = $code,)+
        }

        impl $Name {
            /// Every variant, in the order of the codes.
            pub const ALL: [Self; [$($code),+].len()] = [$(Self::$Variant),+];

            /// The name in messages, configurations and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)+
                }
            }

            /// The variant with the given code.
            #[must_use]
            #[inline]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$Variant),)+
                    _ => None,
                }
            }

            /// The variant with the given name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|variant| variant.name() == name)
            }
        }
    };
}

pub(crate) use codes;
