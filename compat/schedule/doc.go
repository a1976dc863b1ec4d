// Package schedule compares decisions with those of the stock kube-scheduler.
package schedule
