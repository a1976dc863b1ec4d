package aggregate

import "testing"

func TestHashIn(t *testing.T) {
	for index, want := range map[string]string{
		`{"paths":{"apis/a/v1":{"serverRelativeURL":"/openapi/v3/apis/a/v1?hash=A%26B"}}}`: "A&B",
		`{"paths":{"apis/b/v1":{"serverRelativeURL":"/openapi/v3/apis/b/v1?hash=AB"}}}`:    "",
		`{"paths":{"apis/a/v1":{"serverRelativeURL":"%zz?hash=AB"}}}`:                      "",
		`{"paths":{"apis/a/v1":{}}}`: "",
		`{"paths":7}`:                "",
		``:                           "",
	} {
		if have := hashIn([]byte(index), "apis/a/v1"); have != want {
			t.Errorf("%s: %q, want %q", index, have, want)
		}
	}
}

func FuzzHashIn(f *testing.F) {
	f.Add([]byte(`{"paths":{"apis/a/v1":{"serverRelativeURL":"/openapi/v3/apis/a/v1?hash=AB"}}}`))
	f.Fuzz(func(t *testing.T, index []byte) {
		if hash := hashIn(index, "apis/a/v1"); len(hash) > len(index) {
			t.Errorf("%q out of %q", hash, index)
		}
	})
}
