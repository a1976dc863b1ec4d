package images

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzPullFailure: whatever the runtime says, a container has a reason, and the words are kept.
func FuzzPullFailure(f *testing.F) {
	for _, said := range []string{
		"", "rpc error: code = Unknown desc = RegistryUnavailable: down", "SignatureValidationFailed", " desc = ", " desc =  desc = RegistryUnavailable",
		"RegistryUnavailable\x00\xff",
	} {
		f.Add("web:1", said)
	}
	f.Fuzz(func(t *testing.T, image, said string) {
		reason, message := PullFailure(image, said)
		_, special := pullErrors[reason]
		if reason != "ErrImagePull" && !special {
			t.Errorf("the reason is %q", reason)
		}
		if special && (!strings.HasPrefix(message, "image pull failed for "+image+" because ") || !strings.Contains(said, reason)) || !special && message != said && len(said) <= maxSaid {
			t.Errorf("%q became %s: %q", said, reason, message)
		}
	})
}

// TestLongPullFailure: an error with much text of a registry, for many credentials, leaves room for the
// status of a pod with many containers.
func TestLongPullFailure(t *testing.T) {
	for _, said := range []string{strings.Repeat("a", 512<<10), strings.Repeat("é", 512<<10), "RegistryUnavailable: " + strings.Repeat("a", 512<<10)} {
		reason, message := PullFailure("web:1", said)
		if len(message) > 5<<10 || len(message) < 3<<10 || !utf8.ValidString(message) {
			t.Errorf("PullFailure(%.30q...) = %s and a message of %d bytes, want about %d of valid UTF-8", said, reason, len(message), maxSaid)
		}
	}
}
