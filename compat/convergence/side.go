package convergence

import (
	"context"
	_ "embed"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Authority is the CA certificate that pods get to trust. No program has its key.
//
//go:embed authority.crt
var Authority string

// StockControllers lists the controllers of kube-controller-manager that planekit has
// a controller for.
var StockControllers = []string{
	"deployment-controller", "replicaset-controller", "replicationcontroller-controller", "disruption-controller", "job-controller", "ttl-after-finished-controller",
	"garbage-collector-controller", "namespace-controller", "serviceaccount-controller", "serviceaccount-token-controller",
	"root-ca-certificate-publisher-controller", "endpoints-controller", "endpointslice-controller",
	"endpointslice-mirroring-controller", "resourcequota-controller", "clusterrole-aggregation-controller", "service-cidr-controller",
	"horizontal-pod-autoscaler-controller",
}

// Side is one API server with one set of controllers.
type Side struct {
	client  kubernetes.Interface
	dynamic dynamic.Interface
	record  *record
}

// NewSide returns the side that a kubeconfig leads to, and creates its node. The side
// records changes and serves metrics of pods until ctx is done.
func NewSide(ctx context.Context, path string) (*Side, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, -1
	config.WarningHandler = rest.NoWarnings{} // Endpoints are deprecated
	s := &Side{}
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if err := serveMetrics(ctx, s); err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	if s.record, err = newRecord(ctx, s.dynamic); err != nil {
		return nil, err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	_, err = s.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return s, err
}

// Played is the result of a scenario on one side.
type Played struct {
	// Steps holds the snapshot after each step. The first shows the new namespace with
	// the objects that controllers create in every namespace.
	Steps []Snapshot
	// Err is the error that ended the scenario early, or nil.
	Err error
}

// Run plays all scenarios, at the same time unless they are to be alone, and returns what came of each.
func (s *Side) Run(ctx context.Context, scenarios []Scenario) []Played {
	out := make([]Played, len(scenarios))
	var plays sync.WaitGroup
	for i, scenario := range scenarios {
		if !scenario.Alone {
			plays.Go(func() { out[i].Steps, out[i].Err = s.play(ctx, i, scenario) })
		}
	}
	plays.Wait()
	for i, scenario := range scenarios {
		if scenario.Alone {
			out[i].Steps, out[i].Err = s.play(ctx, i, scenario)
		}
	}
	return out
}
