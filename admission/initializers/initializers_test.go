package initializers_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/initializers"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unsynced returns a cache whose first list, of all, has not come.
func unsynced(all ...*initializers.InitializerConfiguration) *localcache.Map[*initializers.InitializerConfiguration] {
	m := localcache.NewUnsynced(localcache.KeyOf[*initializers.InitializerConfiguration])
	m.Replace(all...)
	return m
}

// configuration has initializers "name group/version/resource".
func configuration(name string, lines ...string) *initializers.InitializerConfiguration {
	c := &initializers.InitializerConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, line := range lines {
		who, what, _ := strings.Cut(line, " ")
		parts := strings.Split(what, "/")
		c.Initializers = append(c.Initializers, initializers.Initializer{Name: who, Rules: []initializers.Rule{{
			APIGroups: strings.Split(parts[0], ","), APIVersions: strings.Split(parts[1], ","), Resources: strings.Split(parts[2], ","),
		}}})
	}
	return c
}

func creating(group, version, resource string, obj any) *admission.Request {
	return &admission.Request{
		Operation: admission.Create, Object: obj,
		Resource: admission.GroupVersionResource{Group: group, Version: version, Resource: resource},
	}
}

func Example() {
	known := localcache.NewMap(configuration("example", "sidecar.example.com /v1/pods"))
	plugin, err := initializers.New(initializers.Config{Configurations: known})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- plugin.Run(ctx) }()
	fmt.Println(plugin.Pending(ctx, creating("", "v1", "pods", &corev1.Pod{})))
	cancel()
	fmt.Println(<-done)
	// Output:
	// [sidecar.example.com] <nil>
	// <nil>
}

func TestPending(t *testing.T) {
	mirror := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}}
	synctest.Test(t, func(t *testing.T) {
		known := unsynced(
			configuration("b", "c.x.y /v1/pods,secrets", "a.x.y /v1/pods"),
			configuration("a", "z.x.y apps/v1/deployments", "a.x.y */*/*", "none.x.y apps/v1/pods", "old.x.y /v1beta1/pods"),
			&initializers.InitializerConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Initializers: []initializers.Initializer{{Name: "ruleless.x.y"}}},
		)
		plugin, err := initializers.New(initializers.Config{Configurations: known})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- plugin.Run(ctx) }()

		began := time.Now()
		_, err = plugin.Pending(ctx, creating("", "v1", "pods", &corev1.Pod{}))
		if !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !strings.Contains(fmt.Sprint(err), "Waiting for initialization configuration to load") {
			t.Errorf("before anything is known: %v", err)
		}
		if apierrors.ReasonForError(err) != "LoadingConfiguration" || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if names, err := plugin.Pending(ctx, creating("admissionregistration.k8s.io", "v1alpha1", "initializerconfigurations", nil)); err != nil || names != nil {
			t.Errorf("a configuration waits for %v, %v", names, err)
		}
		waited := make(chan []string, 1)
		go func() {
			names, _ := plugin.Pending(ctx, creating("", "v1", "pods", &corev1.Pod{}))
			waited <- names
		}()
		synctest.Wait()
		known.Sync()
		if names := <-waited; len(names) != 2 {
			t.Errorf("who waited for the configurations got %v", names)
		}
		for _, c := range []struct {
			in   *admission.Request
			want string
		}{
			{creating("", "v1", "pods", &corev1.Pod{}), "a.x.y c.x.y"},
			{creating("", "v1", "secrets", &corev1.Secret{}), "a.x.y c.x.y"},
			{creating("apps", "v1", "deployments", nil), "z.x.y a.x.y"},
			{creating("", "v1", "services", &corev1.Service{}), "a.x.y"},
			{creating("", "v1", "pods", mirror), ""},
			{creating("admissionregistration.k8s.io", "v1alpha1", "initializerconfigurations", nil), ""},
		} {
			names, err := plugin.Pending(ctx, c.in)
			if err != nil || strings.Join(names, " ") != c.want {
				t.Errorf("%v waits for %v, %v", c.in.Resource, names, err)
			}
		}
		known.Replace()
		synctest.Wait() // the goroutine of Run may be the one that receives the change
		in := creating("", "v1", "pods", &corev1.Pod{})
		if names, err := plugin.Pending(ctx, in); err != nil || len(names) != 0 {
			t.Errorf("after the last configuration is gone: %v, %v", names, err)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = plugin.Pending(ctx, in) }); n != 0 {
			t.Errorf("without configurations: %v allocations", n)
		}
		cancel()
		if err := <-done; err != nil || known.Subscriptions() > 0 {
			t.Errorf("ended with %v, still subscribed: %v", err, known.Subscriptions() > 0)
		}
	})
}

func TestNew(t *testing.T) {
	if _, err := initializers.New(initializers.Config{}); err == nil {
		t.Error("a plugin without configurations")
	}
}

// TestDeepCopy changes every part of a copy.
func TestDeepCopy(t *testing.T) {
	list := &initializers.InitializerConfigurationList{Items: []initializers.InitializerConfiguration{*configuration("a", "x.y.z a/b/c")}}
	same := &initializers.InitializerConfigurationList{Items: []initializers.InitializerConfiguration{*configuration("a", "x.y.z a/b/c")}}
	copied := list.DeepCopyObject().(*initializers.InitializerConfigurationList)
	if !reflect.DeepEqual(list, copied) {
		t.Errorf("the copy is %v", copied)
	}
	c := copied.Items[0].DeepCopyObject().(*initializers.InitializerConfiguration)
	for _, c := range []*initializers.InitializerConfiguration{c, &copied.Items[0]} {
		r := &c.Initializers[0].Rules[0]
		r.APIGroups[0], r.APIVersions[0], r.Resources[0], c.Initializers[0].Name, c.Name = "q", "q", "q", "q", "q"
	}
	if !reflect.DeepEqual(list, same) {
		t.Errorf("it became %v", list)
	}
	if (*initializers.InitializerConfiguration)(nil).DeepCopy() != nil {
		t.Error("nothing became something")
	}
}

func BenchmarkPending(b *testing.B) {
	known := localcache.NewMap[*initializers.InitializerConfiguration]()
	plugin, err := initializers.New(initializers.Config{Configurations: known})
	if err != nil {
		b.Fatal(err)
	}
	go plugin.Run(b.Context())
	in := creating("", "v1", "pods", &corev1.Pod{})
	if _, err := plugin.Pending(b.Context(), in); err != nil {
		b.Fatal(err)
	}
	b.Run("configurations=0", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if names, err := plugin.Pending(b.Context(), in); err != nil || names != nil {
				b.Fatal(names, err)
			}
		}
	})
}
