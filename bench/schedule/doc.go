// Command schedule measures how fast pods are placed on nodes, by planekit's scheduler, in eight
// workloads.
//
//	go run ./schedule --nodes 5000 --pods 10000 --workload basic
//
// It runs the decision core alone: a State with all nodes, and the loop of Decide and Assume that
// the scheduler runs, without an API server. In the preemption workload the victims leave at once.
package main
