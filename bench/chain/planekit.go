package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/defaulttolerations"
	"github.com/planekit/planekit/admission/lifecycle"
	"github.com/planekit/planekit/admission/limitranger"
	"github.com/planekit/planekit/admission/plugins"
	"github.com/planekit/planekit/admission/priority"
	"github.com/planekit/planekit/admission/resourcequota"
	"github.com/planekit/planekit/admission/serviceaccount"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authn/x509"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/informer"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// planekitSide is planekit's three chains.
type planekitSide struct {
	request   *http.Request
	who       authn.Authenticator
	may       authz.Authorizer
	should    admission.Chain
	prototype *corev1.Pod

	user *user.Info // the authenticated user, to measure the other steps alone
}

// errLookup is the error of every lookup beyond the caches; no plugin should need one.
var errLookup = errors.New("not in the cache")

// newPlanekit starts planekit's side, whose caches run until ctx is done.
func newPlanekit(ctx context.Context, w *world) (*planekitSide, error) {
	request, err := w.request()
	if err != nil {
		return nil, err
	}
	certificates, err := x509.New(x509.Config{Roots: w.authorities})
	if err != nil {
		return nil, err
	}
	roles, err := rbac.New(rbac.Config{
		Roles:               runCache(ctx, w.roles),
		RoleBindings:        runCache(ctx, w.roleBindings),
		ClusterRoles:        runCache(ctx, w.clusterRoles),
		ClusterRoleBindings: runCache(ctx, w.clusterRoleBindings),
	})
	if err != nil {
		return nil, err
	}
	go roles.Run(ctx)
	<-roles.Synced()
	s := &planekitSide{
		request: request, prototype: newPod(),
		who: authn.Chain{certificates, anonymous.Authenticator{}},
		may: authz.Chain{authz.Superusers(user.Masters), roles},
	}
	if s.should, err = plugins.New(plugins.Config{Table: table(ctx, w)}); err != nil {
		return nil, err
	}
	s.user, _, err = s.who.Authenticate(request)
	return s, err
}

// table is the plugins that are compared.
func table(ctx context.Context, w *world) []plugins.Plugin {
	namespaces, accounts, classes := runCache(ctx, w.namespaces), runCache(ctx, w.accounts), runCache(ctx, w.classes)
	limits, quotas := byNamespace(ctx, w.limits), byNamespace(ctx, w.quotas)
	return []plugins.Plugin{
		{Name: "NamespaceLifecycle", New: func([]byte) (any, error) {
			return lifecycle.New(lifecycle.Config{Namespaces: namespaces,
				Lookup: func(context.Context, string) (*corev1.Namespace, error) { return nil, errLookup }})
		}},
		{Name: "ServiceAccount", New: func([]byte) (any, error) {
			return serviceaccount.New(serviceaccount.Config{Accounts: accounts,
				Lookup: func(context.Context, string, string) (*corev1.ServiceAccount, error) { return nil, errLookup }})
		}},
		{Name: priority.Name, New: func([]byte) (any, error) {
			return priority.New(priority.Config{Classes: classes,
				Lookup: func(_ context.Context, name string) (*schedulingv1.PriorityClass, error) {
					return nil, apierrors.NewNotFound(schedulingv1.Resource("priorityclasses"), name)
				}})
		}},
		{Name: "LimitRanger", New: func([]byte) (any, error) {
			return limitranger.New(limitranger.Config{ByNamespace: limits,
				Lookup: func(context.Context, string) ([]*corev1.LimitRange, error) { return nil, nil }})
		}},
		{Name: "ResourceQuota", New: func([]byte) (any, error) {
			return resourcequota.New(resourcequota.Config{ByNamespace: quotas, Writer: noQuotas{},
				Lookup: func(context.Context, string) ([]*corev1.ResourceQuota, error) { return nil, nil }})
		}},
		{Name: defaulttolerations.Name, New: func([]byte) (any, error) { return defaulttolerations.New(defaulttolerations.Config{}) }},
	}
}

// noQuotas has none: charging is a write, and no part of this.
type noQuotas struct{}

func (noQuotas) Get(context.Context, string, string) (*corev1.ResourceQuota, error) {
	return nil, errLookup
}

func (noQuotas) UpdateStatus(context.Context, *corev1.ResourceQuota) (*corev1.ResourceQuota, error) {
	return nil, errLookup
}

// runCache returns a running cache of objects.
func runCache[T metav1.Object](ctx context.Context, objects []T) *informer.Informer[T] {
	inf := newCache(objects)
	start(ctx, inf)
	return inf
}

// byNamespace returns the index of a running cache of objects by namespace.
func byNamespace[T metav1.Object](ctx context.Context, objects []T) *informer.Index[string, T] {
	inf := newCache(objects)
	index := informer.NewIndex(inf, func(o T) []string { return []string{o.GetNamespace()} })
	start(ctx, inf)
	return index
}

func start[T any](ctx context.Context, inf *informer.Informer[T]) {
	go inf.Run(ctx)
	<-inf.Synced()
}

func newCache[T metav1.Object](objects []T) *informer.Informer[T] {
	config := informer.ConfigFor(fixed[T](objects))
	config.Revision = func(T) string { return "1" }
	inf, err := informer.New(config)
	if err != nil {
		panic(err)
	}
	return inf
}

// fixed is a source of objects that never change.
type fixed[T any] []T

func (f fixed[T]) Sync(ctx context.Context, _ string, sink informer.Sink[T]) error {
	sink.Replace("1", f)
	<-ctx.Done()
	return ctx.Err()
}

func (s *planekitSide) pods(n int) []any {
	pods := make([]any, n)
	for i := range pods {
		pods[i] = s.prototype.DeepCopy()
	}
	return pods
}

func (s *planekitSide) authenticate() error {
	_, known, err := s.who.Authenticate(s.request)
	if err == nil && !known {
		err = errors.New("nobody")
	}
	return err
}

func (s *planekitSide) authorize() error { return s.mayCreate(s.user) }

func (s *planekitSide) mayCreate(u *user.Info) error {
	decision, reason, err := s.may.Authorize(s.request.Context(), authz.Attributes{
		User: u, Verb: "create", Version: "v1", Resource: "pods", Namespace: namespace,
	})
	if err == nil && decision != authz.Allow {
		err = fmt.Errorf("%v: %s", decision, reason)
	}
	return err
}

func (s *planekitSide) admit(pod any) error { return s.admitFrom(s.user, pod) }

func (s *planekitSide) admitFrom(u *user.Info, pod any) error {
	r := &admission.Request{
		Operation: admission.Create, Namespace: namespace, User: u, Object: pod, Options: &metav1.CreateOptions{},
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"},
		Kind:     admission.GroupVersionKind{Version: "v1", Kind: "Pod"},
	}
	if err := s.should.Mutate(s.request.Context(), r); err != nil {
		return err
	}
	return s.should.Validate(s.request.Context(), r)
}

func (s *planekitSide) create(pod any) error {
	u, _, err := s.who.Authenticate(s.request)
	if err != nil {
		return err
	}
	if err := s.mayCreate(u); err != nil {
		return err
	}
	return s.admitFrom(u, pod)
}

func (s *planekitSide) stored(pod any) (*corev1.Pod, error) { return pod.(*corev1.Pod), nil }
