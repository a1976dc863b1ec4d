package convergence

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/defaulttolerations"
	"github.com/planekit/planekit/admission/lifecycle"
	"github.com/planekit/planekit/admission/priority"
	"github.com/planekit/planekit/admission/resourcequota"
	"github.com/planekit/planekit/admission/serviceaccount"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OurServer starts our API server with the admission that a stock kube-apiserver
// has of its own accord, as far as it can be seen in objects, and returns the path
// of its administrator's kubeconfig.
func OurServer(t testing.TB) string {
	t.Helper()
	var server *apiservertest.Server
	self := &user.Info{Name: user.APIServer, Groups: []string{user.Masters, user.Authenticated}}
	api, err := client.New(client.InProcess(client.TransportFunc(func(r *http.Request) (*http.Response, error) {
		return server.Transport(self).RoundTrip(r)
	})))
	if err != nil {
		t.Fatal(err)
	}
	copies := &parts{t: t}
	chain := admit(t, api, copies)
	server = apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...), apiservertest.WithAdmission(chain))
	copies.start()
	for _, namespace := range kube.Namespaces() {
		if _, err := typed.Namespaces(api).Create(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
	}
	for _, class := range kube.PriorityClasses() {
		if _, err := typed.PriorityClasses(api).Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, server.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// admit makes the plugins, in kube-apiserver's order.
func admit(t testing.TB, api *client.Client, copies *parts) apiserver.Admission {
	t.Helper()
	quotas := newCache(copies, typed.ResourceQuotas(api))
	life, err1 := lifecycle.New(lifecycle.Config{
		Namespaces: newCache(copies, typed.Namespaces(api)),
		Lookup: func(ctx context.Context, name string) (*corev1.Namespace, error) {
			return typed.Namespaces(api).Get(ctx, "", name)
		},
	})
	account, err2 := serviceaccount.New(serviceaccount.Config{
		Accounts: newCache(copies, typed.ServiceAccounts(api)), Lookup: typed.ServiceAccounts(api).Get,
	})
	classes, err3 := priority.New(priority.Config{
		Classes: newCache(copies, typed.PriorityClasses(api)),
		Lookup: func(ctx context.Context, name string) (*schedulingv1.PriorityClass, error) {
			return typed.PriorityClasses(api).Get(ctx, "", name)
		},
	})
	tolerations, err4 := defaulttolerations.New(defaulttolerations.Config{})
	quota, err5 := resourcequota.New(resourcequota.Config{
		ByNamespace: informer.NewIndex(quotas, func(q *corev1.ResourceQuota) []string { return []string{q.Namespace} }),
		Lookup: func(ctx context.Context, namespace string) ([]*corev1.ResourceQuota, error) {
			all, _, err := typed.ResourceQuotas(api).List(ctx, namespace, metav1.ListOptions{})
			return all, err
		},
		Writer: typed.ResourceQuotas(api),
	})
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var chain admission.Chain
	for _, plugin := range []any{life, account, classes, tolerations, quota} {
		if m, ok := plugin.(admission.Mutator); ok {
			chain.Mutators = append(chain.Mutators, m)
		}
		if v, ok := plugin.(admission.Validator); ok {
			chain.Validators = append(chain.Validators, v)
		}
	}
	return chain
}

// parts runs components beside the test until it ends, and stops them in the reverse
// order of their start.
type parts struct {
	t    testing.TB
	runs []func(context.Context) error
}

// start runs what there is, and waits for its end at the end of the test.
func (p *parts) start() {
	// The test's own context ends before its clean-up, which is what ends these.
	for _, run := range p.runs {
		ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()
		p.t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				p.t.Error(err)
			}
		})
	}
	p.runs = nil
}

// newCache returns the cache of what source has, which p runs.
func newCache[T client.Object](p *parts, source informer.Source[T]) *informer.Informer[T] {
	p.t.Helper()
	made, err := informer.For(source)
	if err != nil {
		p.t.Fatal(err)
	}
	p.runs = append(p.runs, made.Run)
	return made
}
