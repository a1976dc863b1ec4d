package crd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	planeclient "github.com/planekit/planekit/client"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/kinds/kind"
	"github.com/planekit/planekit/plane/planetest"
	planereconcile "github.com/planekit/planekit/reconcile"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// startDefinitions is the number of definitions of the test whose start is measured.
const startDefinitions = 20

// startDefinition returns the definition of the nth kind.
func startDefinition(n int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things%[1]d.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"things%[1]d","singular":"thing%[1]d","kind":"Thing%[1]d","listKind":"Thing%[1]dList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","required":["size"],"x-kubernetes-validations":[{"rule":"self.size <= 100"}],"properties":{"size":{"type":"integer","minimum":0},
"color":{"type":"string","default":"red"},"labels":{"type":"object","additionalProperties":{"type":"string"}}}},
"status":{"type":"object","properties":{"ready":{"type":"boolean"}}}}}}}]}}`, n)
}

var thing = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing0"}

// firstReconcile starts a manager of controller-runtime, creates an object and waits until a reconciler has it.
func firstReconcile(b *testing.B, to *rest.Config) {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	manager, err := ctrl.NewManager(to, ctrl.Options{
		Scheme: runtime.NewScheme(), Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // each round has a controller of the name
	})
	if err != nil {
		b.Fatal(err)
	}
	seen := make(chan string, 1)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(thing)
	err = ctrl.NewControllerManagedBy(manager).Named("things").For(object).Complete(reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
		select {
		case seen <- r.Name:
		default:
		}
		return reconcile.Result{}, nil
	}))
	if err != nil {
		b.Fatal(err)
	}
	go func() { ended <- manager.Start(ctx) }()
	if err := manager.GetClient().Create(ctx, newThing()); err != nil {
		b.Fatal(err)
	}
	select {
	case <-seen:
	case <-time.After(time.Minute):
		b.Fatal("the object is not reconciled")
	}
	b.StopTimer()
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// firstOwnReconcile is firstReconcile with an informer and a controller of planekit.
func firstOwnReconcile(b *testing.B, api *planeclient.Client) {
	b.Helper()
	things := planeclient.For(api, kind.Define(kind.Kind[*unstructured.Unstructured]{
		Group: thing.Group, Version: thing.Version, Kind: thing.Kind, Plural: "things0", Namespaced: true,
		New: func() *unstructured.Unstructured { return &unstructured.Unstructured{} },
	}))
	cache, err := informer.For(things)
	if err != nil {
		b.Fatal(err)
	}
	seen := make(chan string, 10)
	c, err := planereconcile.New(planereconcile.Config[string]{Name: "things", Reconcile: func(_ context.Context, key string) (planereconcile.Result, error) {
		seen <- key
		return planereconcile.Result{}, nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	planereconcile.Watch(c, cache, planereconcile.Itself(func(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }))
	ctx, stop := context.WithCancel(context.Background())
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return cache.Run(ctx) })
	parts.Go(func() error { return c.Run(ctx) })
	if _, err := things.Create(ctx, newThing()); err != nil {
		b.Fatal(err)
	}
	select {
	case <-seen:
	case <-time.After(time.Minute):
		b.Fatal("the object is not reconciled")
	}
	b.StopTimer()
	stop()
	if err := parts.Wait(); err != nil {
		b.Fatal(err)
	}
}

func newThing() *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	object.SetGroupVersionKind(thing)
	object.SetNamespace("default")
	object.SetName("a")
	return object
}

// BenchmarkStart measures a test with twenty definitions from its start until an object of one of them is reconciled:
// by planekit's controller, and on both sides by the same manager of controller-runtime.
func BenchmarkStart(b *testing.B) {
	ctrl.SetLogger(logr.Discard())
	dir := b.TempDir()
	for i := range startDefinitions {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.json", i)), startDefinition(i), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("planekit", func(b *testing.B) {
		for range b.N {
			b.StartTimer()
			firstOwnReconcile(b, planetest.Start(b, planetest.CustomResources(dir)).Client())
		}
	})
	b.Run("planekit and controller-runtime", func(b *testing.B) {
		for range b.N {
			b.StartTimer()
			r := planetest.Start(b, planetest.CustomResources(dir)).REST("admin", "system:masters")
			firstReconcile(b, &rest.Config{
				Host: r.Host, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: r.CAData, CertData: r.CertData, KeyData: r.KeyData},
			})
		}
	})
	b.Run("envtest", func(b *testing.B) {
		for range b.N {
			b.StartTimer()
			environment := &envtest.Environment{BinaryAssetsDirectory: "../../bin/stock", CRDDirectoryPaths: []string{dir}, ErrorIfCRDPathMissing: true}
			config, err := environment.Start()
			if err != nil {
				b.Fatal(err)
			}
			config.QPS = -1
			firstReconcile(b, config)
			if err := environment.Stop(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
