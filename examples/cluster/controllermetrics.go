package main

import (
	"fmt"

	"github.com/planekit/planekit/reconcile/controllers"
)

// watched has a controller that was just made, or was not because of err, shown
// with the cluster's metrics. One that is started again keeps its name there.
func (m *manager) watched(r runner, err error) (controllers.Runner, error) {
	if err != nil {
		return nil, err
	}
	observed, ok := r.(interface {
		Observe(controllers.Metrics) error
	})
	if !ok {
		return nil, fmt.Errorf("%T has no metrics", r)
	}
	return r, observed.Observe(m.cluster.controllerMetrics)
}
