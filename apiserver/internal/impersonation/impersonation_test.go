package impersonation

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"
)

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestRead(t *testing.T) {
	alone := func(rest string) string {
		return "requested &user.DefaultInfo{Name:\"\", " + rest + "} without impersonating a user name"
	}
	for _, test := range []struct {
		headers http.Header
		want    *User
		err     string
	}{
		{headers(), nil, ""},
		{headers("Impersonate-User", ""), nil, ""},
		{headers("Impersonate-User", "jane"), &User{Name: "jane"}, ""},
		{headers("impersonate-user", "jane", "impersonate-group", "a", "Impersonate-Group", "b", "Impersonate-Uid", "7",
			"Impersonate-Extra-Scopes", "x", "Impersonate-Extra-Scopes", "y", "Impersonate-Extra-Acme.com%2fproject", "z"),
			&User{Name: "jane", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"scopes": {"x", "y"}, "acme.com/project": {"z"}}}, ""},
		{headers("Impersonate-Group", "a"), nil, alone(`UID:"", Groups:[]string{"a"}, Extra:map[string][]string(nil)`)},
		{headers("Impersonate-Uid", "7"), nil, alone(`UID:"7", Groups:[]string(nil), Extra:map[string][]string(nil)`)},
		{headers("Impersonate-Extra-Scopes", "x"), nil, alone(`UID:"", Groups:[]string(nil), Extra:map[string][]string{"scopes":[]string{"x"}}`)},
		{headers("Impersonate-User", "jane", "Impersonate-Extra-%ZZ", "x"), &User{Name: "jane", Extra: map[string][]string{"%zz": {"x"}}}, ""},
	} {
		got, err := Read(test.headers)
		if !reflect.DeepEqual(got, test.want) || fmt.Sprint(err) != test.err && (err != nil || test.err != "") {
			t.Errorf("%v: %+v %v, want %+v %s", test.headers, got, err, test.want, test.err)
		}
	}
}

func TestRemove(t *testing.T) {
	h := headers("Impersonate-User", "jane", "Impersonate-Group", "a", "Impersonate-Extra-Scopes", "x", "Impersonate-Later", "x", "Accept", "y")
	Remove(h)
	if !reflect.DeepEqual(h, headers("Accept", "y")) {
		t.Errorf("what is left: %v", h)
	}
}
