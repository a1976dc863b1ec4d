package cpumanager_test

import (
	"fmt"

	"github.com/planekit/planekit/kubelet/cpumanager"
)

func ExampleParseSet() {
	cpus, err := cpumanager.ParseSet("0-3,8,9")
	if err != nil {
		fmt.Println(err)
		return
	}
	reserved := cpumanager.NewSet(0)
	fmt.Println(cpus.Len(), cpus.Minus(reserved))
	// Output: 6 1-3,8-9
}
