package apiserver_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage/memstore"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestRefusedResources checks that New refuses names and columns that fail only in requests, and
// that its error names the resource and the column.
func TestRefusedResources(t *testing.T) {
	value := func(runtime.Object) any { return "" }
	for text, change := range map[string]func(*apiserver.Resource){
		`v1 Pods: plural "Pods": a lowercase RFC 1123 label`:  func(r *apiserver.Resource) { r.Plural = "Pods" },
		`v1 my pods: plural "my pods"`:                        func(r *apiserver.Resource) { r.Plural = "my pods" },
		`v1 pods: column "Color": Name and Value must be set`: func(r *apiserver.Resource) { r.Columns = []apiserver.Column{{Name: "Color", Type: "string"}} },
		`v1 pods: column "": Name and Value must be set`:      func(r *apiserver.Resource) { r.Columns = []apiserver.Column{{Type: "string", Value: value}} },
		`v1 pods: column "Size": type "int64" is not integer`: func(r *apiserver.Resource) {
			r.Columns = []apiserver.Column{{Name: "Size", Type: "int64", Value: value}}
		},
		`v1 pods: column "Size": type "" is not integer, number, string, boole`: func(r *apiserver.Resource) { r.Columns = []apiserver.Column{{Name: "Size", Value: value}} },
	} {
		resource := pods()
		change(&resource)
		_, err := apiserver.New(apiserver.Config{
			Store:         memstore.New(),
			Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) { return nil, false, nil }),
			Authorizer: authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
				return authz.Deny, "", nil
			}),
			Resources: []apiserver.Resource{resource},
		})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
}
