package main

import (
	"context"
	"errors"
	"time"

	"github.com/planekit/planekit/apiserver/flowcontrol/objects"
	"github.com/planekit/planekit/client/typed"
)

// startFairness keeps the FlowSchemas and PriorityLevelConfigurations that every
// cluster begins with and configures target as all of them say, unless fairness is
// turned off.
func (c *cluster) startFairness(target objects.Target) error {
	flow := &c.options.flow
	if !flow.fair {
		return nil
	}
	// The objects name the writer that kube-apiserver names.
	api, err := c.clientAs(componentUser(), "api-priority-and-fairness-config-producer-v1")
	if err != nil {
		return err
	}
	keeper, err := objects.NewKeeper(objects.KeeperConfig{
		Levels:       c.copies.priorityLevels,
		Schemas:      c.copies.flowSchemas,
		LevelClient:  typed.PriorityLevelConfigurations(api),
		SchemaClient: typed.FlowSchemas(api),
		Target:       target,
		Seats:        flow.reading + flow.changing,
		Log:          c.log.WithName("fairness"),
	})
	if err != nil {
		return err
	}
	c.fairness = keeper.Ready()
	c.copies.start(c.stack, "prioritylevelconfigurations", "flowschemas")
	c.stack.start("flow control", keeper.Run)
	return nil
}

// fairnessPatience is how long a start waits for the objects of flow control. It goes on without
// them: the built-in configuration is the same, and the keeper tries on.
const fairnessPatience = 10 * time.Second

func (c *cluster) awaitFairness(ctx context.Context) error {
	if !c.options.flow.fair {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, fairnessPatience)
	defer cancel()
	err := c.stack.await(bounded, c.fairness)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		c.log.Info("the objects of flow control are not there yet", "waited", fairnessPatience.String())
		return nil
	}
	return err
}
