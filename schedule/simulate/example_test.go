package simulate_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/priorities"
	"github.com/planekit/planekit/schedule/simulate"
)

// Six small pods arrive, and then one that fills a node. If the small ones are spread over both nodes, it
// waits until those on one of them have ended.
func Example() {
	workload := &simulate.Workload{Nodes: simulate.Uniform(2, "8", "16Gi")}
	for i := range 7 {
		cpu := "1"
		if i == 6 {
			cpu = "8"
		}
		workload.Arrivals = append(workload.Arrivals, simulate.Arrival{
			At: time.Duration(i) * time.Second, Duration: time.Minute,
			Pod: pod(fmt.Sprint("pod-", i), cpu, "1Gi"),
		})
	}
	var results []*simulate.Result
	for _, policy := range []simulate.Policy{
		{Name: "least", Priorities: []schedule.Weighted{{Priority: priorities.LeastAllocated()}}},
		{Name: "most", Priorities: []schedule.Weighted{{Priority: priorities.MostAllocated()}}},
	} {
		result, err := simulate.Run(context.Background(), workload, policy)
		if err != nil {
			log.Fatal(err)
		}
		results = append(results, result)
	}
	if err := simulate.WriteTable(os.Stdout, results...); err != nil {
		log.Fatal(err)
	}
	// Output:
	// POLICY                   least  most
	// nodes                    2      2
	// pods                     7      7
	// pods never placed        0      0
	// preemptions              0      0
	// decisions                8      7
	// virtual time             2m4s   1m6s
	// wait p50                 0s     0s
	// wait p99                 58s    0s
	// wait max                 58s    0s
	// nodes in use, mean       1.5    1.9
	// nodes in use, peak       2      2
	// pods pending, mean       0.5    0.0
	// pods pending, peak       1      0
	// cpu requested, mean      42.3%  79.5%
	// cpu requested, peak      56.2%  87.5%
	// cpu fragmented, mean     0.0%   0.0%
	// memory requested, mean   10.6%  19.9%
	// memory requested, peak   18.8%  21.9%
	// memory fragmented, mean  23.4%  53.9%
}
