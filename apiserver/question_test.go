package apiserver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn/user"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// asked is pods with a question: the answer names the pod and the user.
func asked() apiserver.Resource {
	r := pods()
	r.Subresources = []apiserver.Subresource{apiserver.Question{
		Name: "token", Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest",
		New: func() runtime.Object { return &authenticationv1.TokenRequest{} },
		Answer: func(ctx context.Context, parent, body runtime.Object) (runtime.Object, error) {
			u, _ := user.FromContext(ctx)
			request := body.DeepCopyObject().(*authenticationv1.TokenRequest)
			request.Status.Token = parent.(*corev1.Pod).Name + " " + u.Name
			return request, nil
		},
	}}
	return r
}

func TestSubresourceAnswer(t *testing.T) {
	refuse := errors.New("not today")
	var refusal error
	s := apiservertest.Start(t, apiservertest.WithResources(asked()),
		apiservertest.WithAdmission(admit{validate: func(_ context.Context, r *admission.Request) error {
			if r.Subresource == "token" && r.Operation == admission.Create {
				return refusal
			}
			return nil
		}}))
	a := &api{t, s.Client(), s.URL}
	before := a.create(podPath, pod("p", "")).body

	const question = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["x"]}}`
	got := into[authenticationv1.TokenRequest](t, a.want(a.do("POST", podPath+"/p/token", question), 201, ""))
	if got.Status.Token != "p admin" || got.Kind != "TokenRequest" || got.APIVersion != "authentication.k8s.io/v1" || got.Name != "p" {
		t.Errorf("the answer is %v, want the token %q and a TokenRequest of authentication.k8s.io/v1 with the name p", got, "p admin")
	}
	if after := a.want(a.do("GET", podPath+"/p", ""), 200, "").body; after != before {
		t.Errorf("the object was changed:\n%s\n%s", before, after)
	}
	a.want(a.do("POST", podPath+"/none/token", question), 404, `pods "none" not found`)
	a.want(a.do("POST", podPath+"/p/token", `{"apiVersion":"v1","kind":"Pod"}`), 400, "")
	a.want(a.do("GET", podPath+"/p/token", ""), 405, "")
	refusal = refuse
	a.want(a.do("POST", podPath+"/p/token", question), 403, "not today")
}
