// Package autoscale holds the controller of HorizontalPodAutoscalers.
//
// A [Calculation] is the number of replicas that the usage of some pods asks for. It is a pure
// function. A [Controller] makes one for each metric of an autoscaler, takes the largest result,
// and bounds it by the autoscaler's limits and behavior.
package autoscale
