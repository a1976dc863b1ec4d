package main

import (
	"testing"

	"github.com/planekit/planekit/examples/cluster/containerd"
	"github.com/planekit/planekit/internal/scenario"
)

var programs string

func TestMain(m *testing.M) { scenario.Main(m, &programs) }

func TestScenariosFake(t *testing.T) {
	scenario.Run(t, scenario.Config{Dir: "testdata/fake", Programs: programs})
}

func TestScenariosContainerd(t *testing.T) {
	if err := containerd.Available(); err != nil {
		t.Skip(err)
	}
	scenario.Run(t, scenario.Config{Dir: "testdata/containerd", Programs: programs, OneByOne: true})
}
