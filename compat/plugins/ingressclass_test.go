package plugins

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/ingressclass"
	"github.com/planekit/planekit/localcache"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	stock "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install" // the internal type of the stock plugin
	"k8s.io/kubernetes/plugin/pkg/admission/network/defaultingressclass"
)

// TestIngressClassAgrees: both sides' plugins give random ingresses the same class of random ones.
func TestIngressClassAgrees(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	shared := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	theirs, err := stockIngressClass(t.Context(), shared)
	if err != nil {
		t.Fatal(err)
	}
	known := shared.Networking().V1().IngressClasses().Informer().GetIndexer()
	given := 0
	for round := range 100 {
		var all []any
		ours := ingressclass.Default{}
		classes := localcache.NewMap[*networkingv1.IngressClass]()
		for i := range random.IntN(4) {
			class := randomClass(random, fmt.Sprint("class-", i))
			classes.Put(class)
			all = append(all, class)
		}
		ours.Classes = classes
		if err := known.Replace(all, ""); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			in := randomIngress(random)
			operation, sub := stock.Create, ""
			switch random.IntN(8) {
			case 0:
				operation = stock.Update
			case 1:
				sub = "status"
			}
			want, err := classThroughStock(t.Context(), theirs, in, operation, sub)
			if err != nil {
				t.Fatal(err)
			}
			got := in.DeepCopy()
			r := &admission.Request{Operation: admission.Operation(operation), Object: got, Subresource: sub}
			if err := ours.Mutate(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if nameOf(got.Spec.IngressClassName) != nameOf(want) {
				t.Fatalf("round %d (seed %d): planekit gives %s, kube-apiserver %s, to %s %q of %+v, with %v",
					round, seed, nameOf(got.Spec.IngressClassName), nameOf(want), operation, sub, in, all)
			}
			if in.Spec.IngressClassName == nil && want != nil {
				given++
			}
		}
	}
	if given < 100 {
		t.Errorf("%d of 2000 ingresses got a class: this tries too little", given)
	}
}

func nameOf(class *string) string {
	if class == nil {
		return "none"
	}
	return fmt.Sprintf("%q", *class)
}

func randomClass(random *rand.Rand, name string) *networkingv1.IngressClass {
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(time.Unix(int64(1000+random.IntN(3)), 0)),
	}}
	if value := []string{"", "true", "true", "true", "True", "false"}[random.IntN(6)]; value != "" {
		class.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: value}
	}
	return class
}

func randomIngress(random *rand.Rand) *networkingv1.Ingress {
	in := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}}
	switch random.IntN(6) {
	case 0:
		in.Spec.IngressClassName = new([]string{"", "class-0", "mine"}[random.IntN(3)])
	case 1:
		in.Annotations = map[string]string{"kubernetes.io/ingress.class": []string{"", "mine"}[random.IntN(2)]}
	}
	return in
}

// stockIngressClass returns kube-apiserver's plugin over the classes of a factory, which it starts.
func stockIngressClass(ctx context.Context, shared informers.SharedInformerFactory) (stock.MutationInterface, error) {
	registered := stock.NewPlugins()
	defaultingressclass.Register(registered)
	plugin, err := registered.NewFromPlugins([]string{ingressclass.DefaultName}, noConfiguration{}, stock.PluginInitializers{
		initializer.New(nil, nil, shared, nil, nil, nil, ctx.Done(), nil),
	}, nil)
	if err != nil {
		return nil, err
	}
	shared.Start(ctx.Done())
	shared.WaitForCacheSync(ctx.Done())
	return plugin.(stock.MutationInterface), nil
}

func classThroughStock(ctx context.Context, plugin stock.MutationInterface, in *networkingv1.Ingress, operation stock.Operation, sub string) (*string, error) {
	internal := &networking.Ingress{}
	if err := legacyscheme.Scheme.Convert(in, internal, nil); err != nil {
		return nil, err
	}
	kind := schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}
	resource := schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
	a := stock.NewAttributesRecord(internal, nil, kind, in.Namespace, in.Name, resource, sub, operation, nil, false, nil)
	if plugin.Handles(operation) {
		if err := plugin.Admit(ctx, a, nil); err != nil {
			return nil, err
		}
	}
	return internal.Spec.IngressClassName, nil
}
