package bodycost

import (
	"errors"
	"fmt"
	"strings"
)

// ErrQuantity marks a text with a quantity that would take long to decode.
var ErrQuantity = errors.New("quantity out of range")

// To decode the quantity 1e-9999999 takes seconds, and to compare 1e9999999 with a number even longer. No
// amount of anything needs such exponents, or so many digits.
const (
	longQuantity = 256
	longExponent = 3
)

// CheckQuantity returns an error for a quantity that would take long to decode.
func CheckQuantity(text string) error {
	if len(text) > longQuantity {
		return fmt.Errorf("%w: %d bytes", ErrQuantity, len(text))
	}
	at := strings.LastIndexAny(text, "eE")
	if at < 0 {
		return nil
	}
	exponent := strings.TrimLeft(strings.TrimLeft(text[at+1:], "+-"), "0")
	if len(exponent) > longExponent {
		return fmt.Errorf("%w: the exponent of %q", ErrQuantity, text)
	}
	return nil
}
