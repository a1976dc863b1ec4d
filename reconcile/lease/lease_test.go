package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/lifecycle"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/lease"
	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// leases returns the leases of a new API server.
func leases(t *testing.T, options ...apiservertest.Option) client.Resource[*coordinationv1.Lease] {
	t.Helper()
	server := apiservertest.Start(t, append(options, apiservertest.WithResources(apiserver.Resource{
		Group: "coordination.k8s.io", Version: "v1", Kind: "Lease", Plural: "leases", Namespaced: true,
		New:     func() runtime.Object { return &coordinationv1.Lease{} },
		NewList: func() runtime.Object { return &coordinationv1.LeaseList{} },
	}))...)
	api, err := client.New(client.Config{Server: "http://memory", Transport: server.Transport(&user.Info{Name: "a", Groups: []string{user.Masters}})})
	if err != nil {
		t.Fatal(err)
	}
	return typed.Leases(api)
}

func open(t *testing.T, leases lease.Leases) *lease.Lease {
	t.Helper()
	l, err := lease.New(lease.Config{Leases: leases, Namespace: "default", Name: "painter"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConfig(t *testing.T) {
	for _, c := range []lease.Config{{}, {Leases: leases(t), Namespace: "a"}, {Leases: leases(t), Name: "a"}} {
		if _, err := lease.New(c); err == nil {
			t.Errorf("%+v: accepted", c)
		}
	}
}

// TestRecord: a record is read as it was written, has the field names of the API, and replaces only
// the record that was read.
func TestRecord(t *testing.T) {
	ctx, api := t.Context(), leases(t)
	a, b := open(t, api), open(t, api)
	if r, err := a.Get(ctx); err != nil || r != (reconcile.LeaseRecord{}) {
		t.Fatalf("no lease is %+v, %v", r, err)
	}
	acquired := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	want := reconcile.LeaseRecord{Holder: "a", Duration: 1500 * time.Millisecond, Acquired: acquired, Renewed: acquired.Add(time.Second), Transitions: 3}
	put, err := a.Put(ctx, want)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(ctx, want); !errors.Is(err, reconcile.ErrLeaseConflict) {
		t.Errorf("a second first: %v", err)
	}
	got, err := b.Get(ctx)
	if err != nil || got.Version != put.Version || got.UID == "" || got.UID != put.UID {
		t.Errorf("read %+v, %v; written %+v", got, err, put)
	}
	if got.Holder != "a" || got.Duration != 2*time.Second || got.Transitions != 3 || !got.Acquired.Equal(want.Acquired) || !got.Renewed.Equal(want.Renewed) {
		t.Errorf("read %+v, want %+v with the duration rounded up", got, want)
	}
	object, err := api.Get(ctx, "default", "painter")
	if err != nil || *object.Spec.HolderIdentity != "a" || *object.Spec.LeaseDurationSeconds != 2 || *object.Spec.LeaseTransitions != 3 {
		t.Errorf("Get(painter) = %+v, %v, want the holder a, 2 seconds and 3 transitions", object, err)
	}
	labelled := object.DeepCopy()
	labelled.Labels = map[string]string{"color": "red"}
	if _, err := api.Update(ctx, labelled); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Put(ctx, put); !errors.Is(err, reconcile.ErrLeaseConflict) {
		t.Errorf("an old one: %v", err)
	}
	if got, err = a.Get(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err = a.Put(ctx, got); err != nil {
		t.Fatal(err)
	}
	if object, err = api.Get(ctx, "default", "painter"); err != nil || object.Labels["color"] != "red" {
		t.Errorf("the label is gone: %v, %v", object.Labels, err)
	}
	if err := api.Delete(ctx, "default", "painter", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Put(ctx, got); !errors.Is(err, reconcile.ErrLeaseConflict) {
		t.Errorf("one that is gone: %v", err)
	}
}

// nowhere is a cluster without namespaces.
type nowhere struct{}

func (nowhere) Get(string) (*corev1.Namespace, bool) { return nil, false }

// TestNoNamespace: if the lease cannot be created because its namespace does not exist, the elector
// logs that error and does not take it for a conflict.
func TestNoNamespace(t *testing.T) {
	plugin, err := lifecycle.New(lifecycle.Config{Namespaces: nowhere{}, Lookup: func(_ context.Context, name string) (*corev1.Namespace, error) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
	}})
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, leases(t, apiservertest.WithAdmission(admission.Chain{Mutators: []admission.Mutator{plugin}})))
	if r, err := l.Get(t.Context()); err != nil || r != (reconcile.LeaseRecord{}) {
		t.Fatalf("no lease is %+v, %v", r, err)
	}
	if _, err := l.Put(t.Context(), reconcile.LeaseRecord{Holder: "a", Duration: time.Second}); !apierrors.IsNotFound(err) || errors.Is(err, reconcile.ErrLeaseConflict) {
		t.Errorf("without a namespace: %v", err)
	}
}

// TestElector: two electors share a lease of an API server. When the first is cancelled, the second
// leads long before the lease expires.
func TestElector(t *testing.T) {
	api := leases(t)
	leads := make(chan reconcile.Fence, 2)
	run := func(ctx context.Context, who string) chan error {
		e, err := reconcile.NewElector(reconcile.ElectorConfig{Identity: who, Lease: open(t, api), RetryPeriod: 10 * time.Millisecond,
			Work: func(ctx context.Context) error {
				fence, _ := reconcile.FenceOf(ctx)
				leads <- fence
				<-ctx.Done()
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		return ended
	}
	first, stopFirst := context.WithCancel(t.Context())
	second, stopSecond := context.WithCancel(t.Context())
	a := run(first, "a")
	f1 := <-leads
	b := run(second, "b")
	stopFirst()
	if err := <-a; err != nil {
		t.Error(err)
	}
	start := time.Now()
	f2 := <-leads
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it led after %v", took)
	}
	stopSecond()
	if err := <-b; err != nil {
		t.Error(err)
	}
	released, err := api.Get(t.Context(), "default", "painter")
	if err != nil {
		t.Fatal(err)
	}
	// This is the record that client-go leaves.
	if s := released.Spec; s.HolderIdentity == nil || *s.HolderIdentity != "" || *s.LeaseDurationSeconds != 1 || int(*s.LeaseTransitions) != f2.Term {
		t.Errorf("released, it is %+v", s)
	}
	if f1.Holder != "a" || f2.Holder != "b" || f2.Term != f1.Term+1 || f1.UID == "" || f1.UID != f2.UID {
		t.Errorf("fences %+v and %+v", f1, f2)
	}
}
