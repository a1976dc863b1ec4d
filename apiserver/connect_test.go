package apiserver_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// running is pods with what runs behind them: a log of the pod's name which
// goes on until the client has enough, and an exec.
func running() apiserver.Resource {
	r := pods()
	r.Subresources = []apiserver.Subresource{
		{Name: "log", Verbs: []string{"get"}, Connect: func(parent runtime.Object) (http.Handler, error) {
			name := parent.(*corev1.Pod).Name
			if name == "idle" {
				return nil, apierrors.NewBadRequest("the pod has not started")
			}
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintln(w, name, r.URL.RawQuery)
				if http.NewResponseController(w).Flush() == nil {
					<-r.Context().Done()
				}
			}), nil
		}},
		{Name: "exec", Verbs: []string{"create"}, Connect: func(runtime.Object) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Method) }), nil
		}},
	}
	return r
}

func TestConnect(t *testing.T) {
	var asked, admitted string
	s := apiservertest.Start(t, apiservertest.WithResources(running()),
		apiservertest.WithAuthorizer(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			asked = a.Verb + " " + a.Resource + "/" + a.Subresource
			return authz.Allow, "", nil
		})),
		apiservertest.WithAdmission(admit{validate: func(_ context.Context, r *admission.Request) error {
			admitted = string(r.Operation) + " " + r.Subresource
			return nil
		}}))
	a := &api{t, s.Client(), s.URL}
	a.create(podPath, pod("p", ""))
	a.create(podPath, pod("idle", ""))
	response, err := s.Client().Get(s.URL + podPath + "/p/log?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if line, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil || line != "p follow=true\n" {
		t.Errorf("%q, %v", line, err)
	}
	if asked != "get pods/log" || admitted != "CONNECT log" {
		t.Errorf("asked %s, admitted %s", asked, admitted)
	}
	a.want(a.do("GET", podPath+"/p/exec", ""), 200, "GET")
	if asked != "create pods/exec" {
		t.Errorf("exec by GET asked for %s", asked)
	}
	a.want(a.do("POST", podPath+"/p/exec", ""), 200, "POST")
	a.want(a.do("POST", podPath+"/p/log", ""), 405, "")
	a.want(a.do("GET", podPath+"/idle/log", ""), 400, "has not started")
	a.want(a.do("GET", podPath+"/none/log", ""), 404, `pods "none" not found`)
}

func TestAnswer(t *testing.T) {
	s := apiservertest.Start(t, apiservertest.WithResources(apiserver.Resource{
		Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview", Plural: "selfsubjectaccessreviews",
		New: func() runtime.Object { return &authorizationv1.SelfSubjectAccessReview{} },
		Answer: func(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
			review := obj.DeepCopyObject().(*authorizationv1.SelfSubjectAccessReview)
			u, _ := user.FromContext(ctx)
			review.Status.Allowed, review.Status.Reason = u.In("system:masters"), u.Name
			return review, nil
		},
	}))
	a := &api{t, s.As("jane", "system:masters"), s.URL}
	path := "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	got := into[authorizationv1.SelfSubjectAccessReview](t, a.create(path, `{"spec":{"resourceAttributes":{"verb":"list","resource":"pods"}}}`))
	if !got.Status.Allowed || got.Status.Reason != "jane" || got.Kind != "SelfSubjectAccessReview" || got.Spec.ResourceAttributes.Verb != "list" {
		t.Errorf("%+v", got)
	}
	a.want(a.do("GET", path, ""), 405, "")
	a.want(a.do("GET", "/openapi/v3/apis/authorization.k8s.io/v1", ""), 200, "SelfSubjectAccessReview")
	list := into[metav1.APIResourceList](t, a.do("GET", "/apis/authorization.k8s.io/v1", ""))
	if verbs := list.APIResources[0].Verbs; len(verbs) != 1 || verbs[0] != "create" {
		t.Errorf("verbs %v", verbs)
	}
}
