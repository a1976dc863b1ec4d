package continuation

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// FuzzContinue: a token that is accepted points into the list it is used for.
func FuzzContinue(f *testing.F) {
	good, err := Encode(7, "/registry/core/pods/default/web")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{good, "", "e30", "forged", good[:len(good)-2]} {
		f.Add(s, "default")
	}
	f.Fuzz(func(t *testing.T, text, namespace string) {
		prefix := storage.Key("/registry/core/pods/" + namespace)
		token, err := Decode(text, prefix)
		if err != nil {
			if !apierrors.IsBadRequest(err) {
				t.Errorf("Decode(%q, %q) has the error %v, want a bad request", text, prefix, err)
			}
			return
		}
		if token.Revision <= 0 || !strings.HasPrefix(string(token.After), string(prefix)) {
			t.Errorf("%q gives %+v under %s", text, token, prefix)
		}
		again, err := Encode(token.Revision, token.After)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := Decode(again, prefix); err != nil || same != token {
			t.Errorf("%+v became %+v, %v", token, same, err)
		}
	})
}
