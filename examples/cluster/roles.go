package main

import (
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/reconcile/controllers"
)

// clusterRole writes the rules of aggregated roles, such as view, into them.
func (m *manager) clusterRole() (runner, error) {
	return controllers.NewClusterRole(controllers.ClusterRoleConfig{
		ClusterRoles: m.copies.clusterRoles,
		Writer:       typed.ClusterRoles(m.api),
		Log:          m.log,
	})
}
