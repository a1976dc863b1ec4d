package images

import (
	"strings"
	"testing"
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
		if special && (!strings.HasPrefix(message, "image pull failed for "+image+" because ") || !strings.Contains(said, reason)) || !special && message != said {
			t.Errorf("%q became %s: %q", said, reason, message)
		}
	})
}
