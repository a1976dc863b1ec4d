package apiserver_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage/memstore"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestSubresourcesAreChecked: New refuses subresources that would fail when they are used.
func TestSubresourcesAreChecked(t *testing.T) {
	without := func(change func(*apiserver.View)) apiserver.View {
		v := scale()
		change(&v)
		return v
	}
	connect := func(runtime.Object) (http.Handler, error) { return http.NotFoundHandler(), nil }
	newEviction := func() runtime.Object { return &policyv1.Eviction{} }
	answer := func(context.Context, runtime.Object, runtime.Object) (runtime.Object, error) { return nil, nil }
	remove := func(context.Context, runtime.Object, runtime.Object, apiserver.Namespace) (*metav1.DeleteOptions, error) {
		return nil, nil
	}
	for _, test := range []struct {
		sub  apiserver.Subresource
		want string // in the error; empty for none
	}{
		{apiserver.Status{}, ""},
		{&apiserver.Status{Name: "finalize", Verbs: []string{"update"}}, ""},
		{apiserver.Status{Verbs: []string{"create"}}, "cannot serve create"},
		{scale(), ""},
		{binding(), ""},
		{without(func(v *apiserver.View) { v.Name = "" }), "name and verbs"},
		{without(func(v *apiserver.View) { v.Verbs = nil }), "name and verbs"},
		{without(func(v *apiserver.View) { v.Verbs = []string{"list"} }), "cannot serve list"},
		{without(func(v *apiserver.View) { v.New = nil }), "New must be set"},
		{without(func(v *apiserver.View) { v.Into = nil }), "needs Into"},
		{without(func(v *apiserver.View) { v.From = nil }), "need From"},
		{without(func(v *apiserver.View) { v.Into, v.Verbs = nil, []string{"get"} }), ""},
		{apiserver.Deletion{Name: "eviction", New: newEviction, Delete: remove}, ""},
		{apiserver.Deletion{Name: "eviction", New: newEviction}, "New and Delete"},
		{apiserver.Deletion{New: newEviction, Delete: remove}, "name and verbs"},
		{apiserver.Question{Name: "token", New: newEviction, Answer: answer}, ""},
		{apiserver.Question{Name: "token", Answer: answer}, "New and Answer"},
		{apiserver.Proxy{Name: "log", Verbs: []string{"get"}, Connect: connect}, ""},
		{apiserver.Proxy{Name: "log", Verbs: []string{"get"}}, "Connect must be set"},
		{apiserver.Proxy{Name: "log", Verbs: []string{"delete"}, Connect: connect}, "needs Paths"},
		{apiserver.Proxy{Name: "log", Verbs: []string{"watch"}, Connect: connect}, "cannot serve watch"},
	} {
		r := pods()
		r.Subresources = []apiserver.Subresource{test.sub}
		_, err := apiserver.New(apiserver.Config{
			Store: memstore.New(), Resources: []apiserver.Resource{r}, Authenticator: authn.Chain{}, Authorizer: authz.Chain{},
		})
		switch {
		case test.want == "" && err != nil:
			t.Errorf("New with the %T %q = %v, want nil", test.sub, test.sub.SubresourceName(), err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%T %q: %v, want %q", test.sub, test.sub.SubresourceName(), err, test.want)
		}
	}
}
