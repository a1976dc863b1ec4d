package define_test

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
)

func Example() {
	r := apiserver.For(kinds.Nodes, apiserver.Resource{
		Strategy: define.Strategy[*corev1.Node]{
			Counted: func(n *corev1.Node) any { return &n.Spec },
		}.Erase(),
		Fields: define.Fields[*corev1.Node]{"spec.providerID": func(n *corev1.Node) string { return n.Spec.ProviderID }}.Erase(),
	})
	old, node := r.New().(*corev1.Node), r.New().(*corev1.Node)
	r.Strategy.PrepareForCreate(context.Background(), old)
	node.Spec.ProviderID = "a"
	r.Strategy.PrepareForUpdate(context.Background(), node, old)
	fmt.Println(r.Kind, r.Plural, r.ShortNames, old.Generation, node.Generation, r.Fields["spec.providerID"](node))
	// Output: Node nodes [no] 1 2 a
}
