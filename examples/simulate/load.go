package main

import (
	"bytes"
	"os"

	"github.com/planekit/planekit/schedule/simulate"
)

// load reads a trace, and the cluster at which its pods arrive. An empty trace is the one of this program if
// there is no cluster either; the pods of the cluster are enough otherwise.
func load(trace, cluster string, nodes int) (*simulate.Workload, error) {
	workload := &simulate.Workload{Nodes: simulate.Uniform(max(0, nodes), "32", "128Gi")}
	if cluster != "" {
		text, err := os.ReadFile(cluster)
		if err != nil {
			return nil, err
		}
		if workload, err = simulate.ReadManifests(cluster, bytes.NewReader(text)); err != nil || trace == "" {
			return workload, err
		}
	}
	pods, err := readTrace(trace)
	if err != nil {
		return nil, err
	}
	workload.Arrivals = append(workload.Arrivals, pods.Arrivals...)
	return workload, nil
}

func readTrace(file string) (*simulate.Workload, error) {
	if file == "" {
		return simulate.ReadCSV("trace.csv", bytes.NewReader(trace))
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return simulate.ReadCSV(file, bytes.NewReader(text))
}
