package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/lifecycle"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// namespaces maps a name to its phase.
type namespaces map[string]corev1.NamespacePhase

func (n namespaces) Get(name string) (*corev1.Namespace, bool) {
	phase, ok := n[name]
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: phase}}, ok
}

func (n namespaces) lookup(_ context.Context, name string) (*corev1.Namespace, error) {
	if namespace, ok := n.Get(name); ok {
		return namespace, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
}

func pod(op admission.Operation, namespace string) *admission.Request {
	return &admission.Request{Operation: op, Namespace: namespace, Name: "web",
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

func namespace(op admission.Operation, name string) *admission.Request {
	return &admission.Request{Operation: op, Namespace: name, Name: name,
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "namespaces"}}
}

func Example() {
	stored := namespaces{"default": corev1.NamespaceActive, "old": corev1.NamespaceTerminating}
	plugin, err := lifecycle.New(lifecycle.Config{Namespaces: stored, Lookup: stored.lookup})
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := admission.Chain{Mutators: []admission.Mutator{plugin}}
	for _, r := range []*admission.Request{
		pod(admission.Create, "default"), pod(admission.Create, "nowhere"), pod(admission.Create, "old"),
		namespace(admission.Delete, "default"),
	} {
		fmt.Println(chain.Mutate(context.Background(), r))
	}
	// Output:
	// <nil>
	// namespaces "nowhere" not found
	// pods "web" is forbidden: unable to create new content in namespace old because it is being terminated
	// namespaces "default" is forbidden: this namespace may not be deleted
}

func TestAdmits(t *testing.T) {
	cached := namespaces{"default": corev1.NamespaceActive, "old": corev1.NamespaceTerminating}
	stored := namespaces{"default": corev1.NamespaceActive, "old": corev1.NamespaceTerminating, "new": corev1.NamespaceActive}
	plugin, err := lifecycle.New(lifecycle.Config{Namespaces: cached, Lookup: stored.lookup})
	if err != nil {
		t.Fatal(err)
	}
	node := &admission.Request{Operation: admission.Create, Name: "n",
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "nodes"}}
	review := pod(admission.Create, "nowhere")
	review.Resource = admission.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "localsubjectaccessreviews"}
	for name, test := range map[string]struct {
		request *admission.Request
		code    int32 // 0 is admitted
	}{
		"create":                        {pod(admission.Create, "default"), 0},
		"create before the copy knows":  {pod(admission.Create, "new"), 0},
		"create nowhere":                {pod(admission.Create, "nowhere"), 404},
		"create in terminating":         {pod(admission.Create, "old"), 403},
		"update in terminating":         {pod(admission.Update, "old"), 0},
		"update nowhere":                {pod(admission.Update, "nowhere"), 404},
		"delete in terminating":         {pod(admission.Delete, "old"), 0},
		"delete nowhere":                {pod(admission.Delete, "nowhere"), 0},
		"cluster-scoped":                {node, 0},
		"review nowhere":                {review, 0},
		"create namespace":              {namespace(admission.Create, "fresh"), 0},
		"update terminating namespace":  {namespace(admission.Update, "old"), 0},
		"delete namespace":              {namespace(admission.Delete, "old"), 0},
		"delete default namespace":      {namespace(admission.Delete, "default"), 403},
		"delete system namespace":       {namespace(admission.Delete, "kube-system"), 403},
		"delete public namespace":       {namespace(admission.Delete, "kube-public"), 403},
		"delete a default of pods":      {pod(admission.Delete, "default"), 0},
		"connect to pod in terminating": {pod(admission.Connect, "old"), 0},
	} {
		err := plugin.Mutate(context.Background(), test.request)
		if code := codeOf(err); code != test.code {
			t.Errorf("%s: %v, which is %d, want %d", name, err, code, test.code)
		}
	}
	err = plugin.Mutate(context.Background(), pod(admission.Create, "old"))
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("no cause: %v", err)
	}
}

func TestCopyIsNotBelievedAfterDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cached := namespaces{"shop": corev1.NamespaceActive} // stays behind
		stored := namespaces{"shop": corev1.NamespaceTerminating}
		plugin, err := lifecycle.New(lifecycle.Config{Namespaces: cached, Lookup: stored.lookup})
		if err != nil {
			t.Fatal(err)
		}
		create := func() error { return plugin.Mutate(t.Context(), pod(admission.Create, "shop")) }
		dry := namespace(admission.Delete, "shop")
		dry.DryRun = true
		if err := plugin.Mutate(t.Context(), dry); err != nil || create() != nil {
			t.Error("a dry run had an effect")
		}
		if err := plugin.Mutate(t.Context(), namespace(admission.Delete, "shop")); err != nil {
			t.Fatal(err)
		}
		if err := create(); !apierrors.IsForbidden(err) {
			t.Errorf("just after the deletion: %v", err)
		}
		time.Sleep(30 * time.Second)
		if err := create(); err != nil {
			t.Errorf("after half a minute: %v", err)
		}
	})
}

func TestLookupFails(t *testing.T) {
	broken := errors.New("storage is down")
	plugin, err := lifecycle.New(lifecycle.Config{Namespaces: namespaces{},
		Lookup: func(context.Context, string) (*corev1.Namespace, error) { return nil, broken }})
	if err != nil {
		t.Fatal(err)
	}
	if err := plugin.Mutate(context.Background(), pod(admission.Create, "x")); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := lifecycle.New(lifecycle.Config{}); err == nil {
		t.Error("an empty config is accepted")
	}
}

// codeOf is the HTTP status of a refusal, zero for none.
func codeOf(err error) int32 {
	var forbidden *admission.ForbiddenError
	var status *apierrors.StatusError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &forbidden):
		return http.StatusForbidden
	case errors.As(err, &status):
		return status.ErrStatus.Code
	}
	return http.StatusInternalServerError
}
