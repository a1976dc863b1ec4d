package apiserver_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authz"
)

func TestImpersonation(t *testing.T) {
	var asked []string
	refuse := ""
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...),
		apiservertest.WithAuthorizer(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			line := strings.Join([]string{a.User.Name, a.Verb, a.Group + "/" + a.Resource + "/" + a.Subresource, a.Namespace + "/" + a.Name}, " ")
			if strings.HasPrefix(a.Verb, "impersonate-on:") {
				return authz.NoOpinion, "", nil // by the verb "impersonate" alone
			}
			if a.Verb == "list" {
				line += " " + strings.Join(a.User.Groups, ",")
			}
			asked = append(asked, line)
			if refuse != "" && strings.Contains(line, refuse) {
				return authz.NoOpinion, "", nil
			}
			return authz.Allow, "", nil
		})))
	a := &api{t, s.As("jane", "system:masters"), "http://memory"}
	headers := []string{"Impersonate-User: joe", "Impersonate-Group: a", "Impersonate-Group: b", "Impersonate-Uid: 7", "Impersonate-Extra-Example.com%2fscope: x"}
	a.want(a.do("GET", podPath, "", headers...), 200, "")
	want := []string{
		"jane impersonate /users/ /joe", "jane impersonate authentication.k8s.io/uids/ /7", "jane impersonate /groups/ /a", "jane impersonate /groups/ /b",
		"jane impersonate authentication.k8s.io/userextras/example.com/scope /x",
		"joe list /pods/ default/ a,b,system:authenticated",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
	for _, refuse = range []string{"/users/", "/groups/ /b", "/uids/", "/userextras/"} {
		a.want(a.do("GET", podPath, "", headers...), 403, `User "jane" cannot impersonate-on:user-info:list resource`)
	}
	refuse, asked = "", nil
	a.want(a.do("GET", podPath, "", "Impersonate-User: system:serviceaccount:ns:robot"), 200, "")
	if asked[0] != "jane impersonate /serviceaccounts/ ns/robot" ||
		!strings.HasSuffix(asked[1], " system:serviceaccounts,system:serviceaccounts:ns,system:authenticated") {
		t.Errorf("service account: %q", asked)
	}
	asked = nil
	a.want(a.do("GET", podPath, "", "Impersonate-User: system:anonymous"), 200, "")
	if !strings.HasSuffix(asked[1], " system:unauthenticated") {
		t.Errorf("anonymous: %q", asked)
	}
	asked = nil
	a.want(a.do("GET", podPath, "", "Impersonate-Group: system:masters"), 400, "without impersonating a user name")
	if len(asked) > 0 {
		t.Errorf("asked %q", asked)
	}
}
