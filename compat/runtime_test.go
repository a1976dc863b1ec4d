package compat

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// summary is a reconciler in the style of kubebuilder's book: every deployment gets a config map
// with the number of its replicas, a finalizer, and a status.
type summary struct{ client.Client }

const finalizer = "example.com/summary"

func (s *summary) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var d appsv1.Deployment
	if err := s.Get(ctx, request.NamespacedName, &d); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if d.DeletionTimestamp != nil {
		if controllerutil.RemoveFinalizer(&d, finalizer) {
			return ctrl.Result{}, s.Update(ctx, &d)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&d, finalizer) {
		return ctrl.Result{}, s.Update(ctx, &d)
	}
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-summary"}}
	_, err := controllerutil.CreateOrUpdate(ctx, s.Client, note, func() error {
		note.Data = map[string]string{"replicas": fmt.Sprint(*d.Spec.Replicas)}
		return controllerutil.SetControllerReference(&d, note, s.Scheme())
	})
	if err != nil || d.Status.ObservedGeneration == d.Generation {
		return ctrl.Result{}, err
	}
	before := d.DeepCopy()
	d.Status.ObservedGeneration, d.Status.Replicas = d.Generation, *d.Spec.Replicas
	return ctrl.Result{}, s.Status().Patch(ctx, &d, client.MergeFrom(before))
}

// startManager runs a manager with the reconciler until the test ends.
func startManager(t *testing.T, config *rest.Config, options ctrl.Options) ctrl.Manager {
	t.Helper()
	options.Metrics = server.Options{BindAddress: "0"}
	options.Logger = logr.Discard()
	ctrl.SetLogger(options.Logger) // otherwise it warns
	options.Controller.SkipNameValidation = ptr.To(true)
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		t.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(manager).For(&appsv1.Deployment{}).Owns(&corev1.ConfigMap{}).Complete(&summary{manager.GetClient()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("manager: %v", err)
		}
	})
	return manager
}

func TestControllerRuntime(t *testing.T) {
	shows(t, "controller-runtime", "a manager with its cache and field index, a reconciler with owned objects, finalizers, owner references, status writer; reads and writes by the manager's client")
	config := serve(t)
	ctx := bounded(t)
	manager := startManager(t, config, ctrl.Options{Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{"default": {}}}})
	if err := manager.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, "data.replicas", func(o client.Object) []string {
		return []string{o.(*corev1.ConfigMap).Data["replicas"]}
	}); err != nil {
		t.Fatal(err)
	}
	if !manager.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache does not sync")
	}
	direct, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	web := deployment("web", 2)
	if err := direct.Create(ctx, web); err != nil {
		t.Fatal(err)
	}
	awaitSummary(ctx, t, direct, web, "2")

	// A change of the desired state is applied, and a change of the result is reverted.
	before := web.DeepCopy()
	web.Spec.Replicas = ptr.To[int32](5)
	if err := direct.Patch(ctx, web, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	awaitSummary(ctx, t, direct, web, "5")
	if err := direct.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-summary"}}); err != nil {
		t.Fatal(err)
	}
	awaitSummary(ctx, t, direct, web, "5")
	eventually(ctx, t, func() (bool, string) {
		var list corev1.ConfigMapList
		err := manager.GetClient().List(ctx, &list, client.InNamespace("default"), client.MatchingFields{"data.replicas": "5"})
		return err == nil && len(list.Items) == 1, fmt.Sprintf("by index: %+v %v", list.Items, err)
	})

	// The deployment is deleted once the reconciler has removed its finalizer.
	if err := direct.Delete(ctx, web); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, func() (bool, string) {
		err := direct.Get(ctx, client.ObjectKeyFromObject(web), &appsv1.Deployment{})
		return apierrors.IsNotFound(err), fmt.Sprint("after its deletion: ", err)
	})
}

// awaitSummary waits for the reconciler's result for a deployment.
func awaitSummary(ctx context.Context, t *testing.T, c client.Client, d *appsv1.Deployment, replicas string) {
	t.Helper()
	eventually(ctx, t, func() (bool, string) {
		var note corev1.ConfigMap
		err := c.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Name + "-summary"}, &note)
		if err == nil {
			err = c.Get(ctx, client.ObjectKeyFromObject(d), d)
		}
		ok := err == nil && note.Data["replicas"] == replicas && metav1.IsControlledBy(&note, d) &&
			fmt.Sprint(d.Status.Replicas) == replicas && d.Status.ObservedGeneration == d.Generation &&
			controllerutil.ContainsFinalizer(d, finalizer)
		return ok, fmt.Sprintf("%+v %+v %v", note, d.Status, err)
	})
}

// TestControllerRuntimeElection: of two managers, one works; when it stops, the
// other does.
func TestControllerRuntimeElection(t *testing.T) {
	shows(t, "controller-runtime", "leader election between managers, released on stop")
	config := serve(t)
	ctx := bounded(t)
	options := ctrl.Options{ // a process that is not delayed by ten seconds keeps the lease
		LeaderElection: true, LeaderElectionID: "summary", LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
		LeaseDuration: ptr.To(15 * time.Second), RenewDeadline: ptr.To(10 * time.Second), RetryPeriod: ptr.To(100 * time.Millisecond),
	}
	direct, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("first", func(t *testing.T) {
		first := startManager(t, config, options)
		receiveClosed(t, first.Elected())
		web := deployment("one", 1)
		if err := direct.Create(ctx, web); err != nil {
			t.Fatal(err)
		}
		awaitSummary(ctx, t, direct, web, "1")
	})
	second := startManager(t, config, options)
	receiveClosed(t, second.Elected())
	web := deployment("two", 2)
	if err := direct.Create(ctx, web); err != nil {
		t.Fatal(err)
	}
	awaitSummary(ctx, t, direct, web, "2")
}

func receiveClosed(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("not within %v", patience)
	}
}
