// Package disruption holds the controller of PodDisruptionBudgets.
package disruption
