package policy_test

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/admission/policy"
	corev1 "k8s.io/api/core/v1"
)

// A policy denies pods on the network of their node.
func Example() {
	policies, err := policy.New(policy.Config{
		Policies: newCache(policyOf("validations: [{expression: '!object.spec.hostNetwork', message: 'not on the network of the node'}]")),
		Bindings: newCache(bindingOf("validationActions: [Deny]")), Params: params{},
		Namespaces: namespaces{"web": {}}, Lookup: func(context.Context, string) (*corev1.Namespace, error) { return nil, nil },
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- policies.Run(ctx) }()
	fmt.Println(policies.Validate(ctx, request(&seen{})))
	stop()
	fmt.Println(<-done)
	// Output:
	// pods "nginx" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not on the network of the node
	// <nil>
}
