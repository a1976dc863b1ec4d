package check_test

import (
	"fmt"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func Example() {
	var ps check.Problems
	spec := field.NewPath("spec")
	ps.Required(spec.Child("image"), "")
	ps.NotNegative(spec.Child("replicas"), -1)
	check.OneOf(&ps, spec.Child("type"), "Some", "All", "None")
	check.EndpointIP(&ps, spec.Child("ip"), "127.0.0.1")
	for _, err := range ps.List {
		fmt.Println(err)
	}
	// Output:
	// spec.image: Required value
	// spec.replicas: Invalid value: -1: must be greater than or equal to 0
	// spec.type: Unsupported value: "Some": supported values: "All", "None"
	// spec.ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)
}
