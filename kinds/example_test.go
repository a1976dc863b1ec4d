package kinds_test

import (
	"fmt"

	"github.com/planekit/planekit/kinds"
)

func Example() {
	fmt.Println(kinds.Deployments.GVK())
	fmt.Println(kinds.Deployments.GroupResource(), kinds.Deployments.ShortNames, kinds.Deployments.Namespaced)
	fmt.Printf("%T %T\n", kinds.Deployments.New(), kinds.Deployments.NewList())
	// Output:
	// apps/v1, Kind=Deployment
	// deployments.apps [deploy] true
	// *v1.Deployment *v1.DeploymentList
}
