package policy_test

import (
	"fmt"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/policy"
)

func Example() {
	file, err := policy.DecodeConfiguration([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 8
profiles:
- schedulerName: packing
  plugins:
    score:
      disabled: [{name: "*"}]
      enabled: [{name: NodeResourcesFit, weight: 5}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	var config schedule.Config
	if err := file.Apply(&config, policy.Parts{}); err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range config.Profiles {
		for _, w := range p.Priorities {
			fmt.Println(p.Name, w.Name(), w.Weight)
		}
	}
	fmt.Println(file.Warnings())
	// Output:
	// packing MostAllocated 5
	// [parallelism has no effect: one goroutine makes all decisions]
}
