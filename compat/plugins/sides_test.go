package plugins

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/alwayspullimages"
	"github.com/planekit/planekit/admission/defaulttolerations"
	"github.com/planekit/planekit/admission/plugins"
	"github.com/planekit/planekit/admission/priority"
	"github.com/planekit/planekit/admission/runtimeclass"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	stock "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/compatibility"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // the internal types of the stock plugins
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// compared are the plugins that admit pods.
var compared = []string{alwayspullimages.Name, priority.Name, defaulttolerations.Name, runtimeclass.Name}

// runtimeClasses returns the runtime classes of both sides.
func runtimeClasses() []*nodev1.RuntimeClass {
	class := func(name string) *nodev1.RuntimeClass {
		return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: "runc"}
	}
	heavy, placed := class("heavy"), class("placed")
	heavy.Overhead = &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}
	heavy.Scheduling = &nodev1.Scheduling{}
	placed.Overhead = &nodev1.Overhead{}
	placed.Scheduling = &nodev1.Scheduling{
		NodeSelector: map[string]string{"disk": "ssd"},
		Tolerations: []corev1.Toleration{
			{Key: "gpu", Operator: corev1.TolerationOpExists},
			{Key: "gpu", Operator: corev1.TolerationOpEqual, Value: "a", Effect: corev1.TaintEffectNoSchedule},
			{Key: "fpga", Operator: corev1.TolerationOpEqual, Value: "b"},
			{Key: "fpga", Value: "b"},
		},
	}
	return []*nodev1.RuntimeClass{class("plain"), heavy, placed}
}

// newOwn returns planekit's plugins over the classes.
func newOwn(ctx context.Context, classes []*schedulingv1.PriorityClass) (admission.Chain, error) {
	known, err := informer.New(informer.Config[*schedulingv1.PriorityClass]{
		Source:   fixed(classes),
		Key:      func(c *schedulingv1.PriorityClass) string { return c.Name },
		Revision: func(*schedulingv1.PriorityClass) string { return "1" },
	})
	if err != nil {
		return admission.Chain{}, err
	}
	go known.Run(ctx)
	<-known.Synced()
	handlers := localcache.NewMap[*nodev1.RuntimeClass]()
	for _, class := range runtimeClasses() {
		handlers.Put(class)
	}
	return plugins.New(plugins.Config{Enable: []string{alwayspullimages.Name}, Table: []plugins.Plugin{
		{Name: alwayspullimages.Name, New: func([]byte) (any, error) { return alwayspullimages.Plugin{}, nil }},
		{Name: priority.Name, New: func([]byte) (any, error) {
			return priority.New(priority.Config{Classes: known, Lookup: func(_ context.Context, name string) (*schedulingv1.PriorityClass, error) {
				return nil, apierrors.NewNotFound(schedulingv1.Resource("priorityclasses"), name)
			}})
		}},
		{Name: defaulttolerations.Name, New: func([]byte) (any, error) { return defaulttolerations.New(defaulttolerations.Config{}) }},
		{Name: runtimeclass.Name, New: func([]byte) (any, error) {
			return runtimeclass.New(runtimeclass.Config{Classes: handlers, Lookup: func(_ context.Context, name string) (*nodev1.RuntimeClass, error) {
				return nil, apierrors.NewNotFound(nodev1.Resource("runtimeclasses"), name)
			}})
		}},
	}})
}

// fixed is a source of objects that never change.
type fixed []*schedulingv1.PriorityClass

func (f fixed) Sync(ctx context.Context, _ string, sink informer.Sink[*schedulingv1.PriorityClass]) error {
	sink.Replace("1", f)
	<-ctx.Done()
	return ctx.Err()
}

// newStock returns kube-apiserver's plugins over the classes, in its order.
func newStock(ctx context.Context, classes []*schedulingv1.PriorityClass) (stock.Interface, error) {
	var objects []runtime.Object
	for _, class := range classes {
		objects = append(objects, class)
	}
	for _, class := range runtimeClasses() {
		objects = append(objects, class)
	}
	client := fake.NewClientset(objects...)
	shared := informers.NewSharedInformerFactory(client, 0)
	registered := stock.NewPlugins()
	options.RegisterAllAdmissionPlugins(registered)
	names := slices.DeleteFunc(slices.Clone(options.AllOrderedPlugins), func(name string) bool { return !slices.Contains(compared, name) })
	chain, err := registered.NewFromPlugins(names, noConfiguration{}, stock.PluginInitializers{
		initializer.New(client, nil, shared, nil, utilfeature.DefaultFeatureGate,
			compatibility.NewEffectiveVersionFromString("1.36", "1.36", "1.36"), ctx.Done(), nil),
	}, nil)
	if err != nil {
		return nil, err
	}
	shared.Start(ctx.Done())
	for kind, synced := range shared.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("no copy of %v", kind)
		}
	}
	return chain, nil
}

// noConfiguration configures no plugin.
type noConfiguration struct{}

func (noConfiguration) ConfigFor(string) (io.Reader, error) { return nil, nil }
