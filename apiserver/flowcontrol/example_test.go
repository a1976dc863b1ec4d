package flowcontrol_test

import (
	"fmt"
	"time"

	"github.com/planekit/planekit/apiserver/flowcontrol"
)

// Two flows of one level that has one seat: the second flow's only request does not
// wait for all requests of the first flow.
func Example() {
	config := flowcontrol.Mandatory(1)
	config.Levels = append(config.Levels, flowcontrol.Level{
		Name: "work", Shares: 1_000_000, Queues: 64, HandSize: 1, QueueLength: 10,
	})
	config.Schemas = append(config.Schemas, flowcontrol.Schema{
		Name: "work", Precedence: 100, Level: "work", Distinguisher: flowcontrol.ByUser,
		Rules: []flowcontrol.Rule{{
			Users: []string{flowcontrol.All},
			Resources: []flowcontrol.ResourceRule{{
				Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}, Namespaces: []string{flowcontrol.All},
			}},
		}},
	})
	core, err := flowcontrol.New(config, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	names := map[*flowcontrol.Ticket]string{}
	var executing *flowcontrol.Ticket
	for _, user := range []string{"greedy", "greedy", "greedy", "modest"} {
		request := flowcontrol.Request{User: user, Verb: "list", Resource: "pods", Namespace: "default"}
		ticket, started, err := core.Arrive(0, &request)
		if err != nil {
			fmt.Println(err)
			return
		}
		names[ticket] = user
		if len(started) > 0 {
			executing = started[0]
		}
	}
	for now := time.Second; executing != nil; now += time.Second {
		fmt.Println(names[executing], "leaves after", now)
		started := core.Leave(now, executing)
		executing = nil
		if len(started) > 0 {
			executing = started[0]
		}
	}
	// Output:
	// greedy leaves after 1s
	// modest leaves after 2s
	// greedy leaves after 3s
	// greedy leaves after 4s
}
