// Command simulate compares policies of scheduling on one trace: it prints a table and writes a plot. Without
// flags, it places the pods of trace.csv by least and by most allocated nodes.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/priorities"
	"github.com/planekit/planekit/schedule/simulate"
)

//go:embed trace.csv
var trace []byte

// policies are the priorities by the names that -policies accepts. Nil is the default profile.
var policies = map[string][]schedule.Weighted{
	"default": nil,
	"least":   {{Priority: priorities.LeastAllocated()}},
	"most":    {{Priority: priorities.MostAllocated()}},
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("simulate", flag.ContinueOnError)
	file := flags.String("trace", "", "CSV `file` of pods (default trace.csv of this program)")
	snapshot := flags.String("cluster", "", "`file` of nodes and pods, as kubectl get nodes,pods -A -o json writes them")
	nodes := flags.Int("nodes", 4, "number of nodes with 32 cores and 128Gi, without -cluster")
	names := flags.String("policies", "least,most", "policies to compare: default, least, most")
	preempt := flags.Bool("preempt", false, "let pods preempt less important ones")
	seed := flags.Uint64("seed", 1, "seed of the choice between equal nodes")
	until := flags.Duration("until", 24*time.Hour, "virtual time to simulate; 0 means until nothing changes any more")
	plot := flags.String("plot", "simulate.svg", "`file` of the plot")
	if err := flags.Parse(args); err != nil {
		return err
	}
	workload, err := load(*file, *snapshot, *nodes)
	if err != nil {
		return err
	}
	workload.Until = *until
	var results []*simulate.Result
	for name := range strings.SplitSeq(*names, ",") {
		weighted, ok := policies[name]
		if !ok {
			return fmt.Errorf("there is no policy %q", name)
		}
		result, err := simulate.Run(ctx, workload, simulate.Policy{Name: name, Priorities: weighted, Preempt: *preempt, Seed: *seed})
		if err != nil {
			return err
		}
		results = append(results, result)
	}
	var svg bytes.Buffer
	if err := simulate.WriteSVG(&svg, results...); err != nil {
		return err
	}
	if err := os.WriteFile(*plot, svg.Bytes(), 0o644); err != nil {
		return err
	}
	return simulate.WriteTable(out, results...)
}
