package main

import (
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	"github.com/planekit/planekit/schedule/remote"
)

// startScheduler starts the scheduler, under its own identity.
func (c *cluster) startScheduler() error {
	api, err := c.clientFor(&user.Info{Name: user.Scheduler, Groups: []string{user.Authenticated}})
	if err != nil {
		return err
	}
	scheduler, err := remote.New(api, schedule.Config{
		Name:       "default-scheduler",
		Predicates: predicates.Default(),
		Priorities: priorities.Default(),
		Nodes:      c.copies.nodes,
		Pods:       c.copies.pods,
		Log:        c.log.WithName("scheduler"),
	})
	if err != nil {
		return err
	}
	c.stack.start("scheduler", scheduler.Run)
	return nil
}
