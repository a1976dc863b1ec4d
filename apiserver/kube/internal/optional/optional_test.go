package optional_test

import (
	"fmt"

	"github.com/planekit/planekit/apiserver/kube/internal/optional"
)

func Example() {
	var replicas *int32
	policy := ""
	fmt.Println(optional.Deref(replicas))
	optional.SetIfNil(&replicas, 1)
	optional.SetIfEmpty(&policy, "Always")
	optional.SetIfEmpty(&policy, "Never")
	fmt.Println(optional.Deref(replicas), policy)
	// Output:
	// 0
	// 1 Always
}
