package impersonation

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/planekit/planekit/authn/user"
)

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestRead(t *testing.T) {
	const alone = "requested impersonation of groups, uid or extra without impersonating a user"
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
		{headers("Impersonate-Group", "a"), nil, alone},
		{headers("Impersonate-Uid", "7"), nil, alone},
		{headers("Impersonate-Extra-Scopes", "x"), nil, alone},
		{headers("Impersonate-User", "jane", "Impersonate-Extra-%zz", "x"), nil, "invalid impersonation header Impersonate-Extra-%zz"},
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

// TestAttributes: each header is a permission of its own.
func TestAttributes(t *testing.T) {
	asks := &user.Info{Name: "admin"}
	for _, test := range []struct {
		user *User
		want []string
	}{
		{&User{Name: "jane"}, []string{"/users jane"}},
		{&User{Name: "jane", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"scopes": {"x", "y"}}}, []string{
			"/groups a", "/groups b", "/users jane", "authentication.k8s.io/uids 7", "authentication.k8s.io/userextras/scopes x", "authentication.k8s.io/userextras/scopes y",
		}},
		{&User{Name: "system:serviceaccount:team:bot"}, []string{"/serviceaccounts team/bot"}},
		{&User{Name: "system:serviceaccount:team:"}, []string{"/users system:serviceaccount:team:"}},
		{&User{Name: "system:serviceaccount:team:bot:more"}, []string{"/users system:serviceaccount:team:bot:more"}},
	} {
		var got []string
		for _, a := range test.user.Attributes(asks) {
			if a.User != asks || a.Verb != "impersonate" {
				t.Errorf("%+v", a)
			}
			text := a.Group + "/" + a.Resource
			if a.Subresource != "" {
				text += "/" + a.Subresource
			}
			if a.Namespace != "" {
				a.Name = a.Namespace + "/" + a.Name
			}
			got = append(got, text+" "+a.Name)
		}
		if slices.Sort(got); !slices.Equal(got, test.want) {
			t.Errorf("%+v: %q, want %q", test.user, got, test.want)
		}
	}
}

func TestComplete(t *testing.T) {
	for _, test := range []struct {
		user User
		want []string
	}{
		{User{Name: "jane"}, []string{user.Authenticated}},
		{User{Name: "jane", Groups: []string{"a"}}, []string{"a", user.Authenticated}},
		{User{Name: "jane", Groups: []string{user.Authenticated}}, []string{user.Authenticated}},
		{User{Name: "jane", Groups: []string{user.Unauthenticated}}, []string{user.Unauthenticated}},
		{User{Name: user.Anonymous}, []string{user.Unauthenticated}},
		{User{Name: "system:serviceaccount:team:bot"}, []string{user.ServiceAccounts, user.ServiceAccounts + ":team", user.Authenticated}},
		{User{Name: "system:serviceaccount:team:bot", Groups: []string{"a"}}, []string{"a", user.Authenticated}},
	} {
		before := slices.Clone(test.user.Groups)
		if got := test.user.Complete(); !slices.Equal(got.Groups, test.want) || got.Name != test.user.Name {
			t.Errorf("%+v: %+v, want %v", test.user, got, test.want)
		}
		if !slices.Equal(test.user.Groups, before) {
			t.Errorf("the groups in the headers became %v", test.user.Groups)
		}
	}
}
