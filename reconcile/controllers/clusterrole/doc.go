// Package clusterrole holds the controller that writes the rules of aggregated cluster roles.
package clusterrole
