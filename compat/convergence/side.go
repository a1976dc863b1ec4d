package convergence

import (
	"context"
	_ "embed"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Authority is the certificate that pods are told to trust. Nobody has its key.
//
//go:embed authority.crt
var Authority string

// StockControllers are the controllers of kube-controller-manager that have one of
// ours beside them.
var StockControllers = []string{
	"deployment-controller", "replicaset-controller", "replicationcontroller-controller", "disruption-controller", "job-controller", "ttl-after-finished-controller",
	"garbage-collector-controller", "namespace-controller", "serviceaccount-controller", "serviceaccount-token-controller",
	"root-ca-certificate-publisher-controller", "endpoints-controller", "endpointslice-controller",
	"endpointslice-mirroring-controller", "resourcequota-controller", "clusterrole-aggregation-controller",
}

// Side is one API server with one set of controllers.
type Side struct {
	client  kubernetes.Interface
	dynamic dynamic.Interface
	record  *record
}

// NewSide looks at the side that a kubeconfig leads to. Its node is there
// afterwards. It watches until ctx is done.
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
	if s.record, err = newRecord(ctx, s.dynamic); err != nil {
		return nil, err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	_, err = s.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return s, err
}

// Played is what came of a scenario on one side.
type Played struct {
	// Steps are what there was after each step; the first is the namespace with what
	// controllers put into each.
	Steps []Snapshot
	// Err is why there are not more of them.
	Err error
}

// Run plays all scenarios, at the same time, and returns what came of each.
func (s *Side) Run(ctx context.Context, scenarios []Scenario) []Played {
	out := make([]Played, len(scenarios))
	var plays sync.WaitGroup
	for i, scenario := range scenarios {
		plays.Go(func() { out[i].Steps, out[i].Err = s.play(ctx, i, scenario) })
	}
	plays.Wait()
	return out
}
