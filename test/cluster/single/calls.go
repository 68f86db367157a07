package single

import "context"

// Calls counts the finished calls of each CRI method since the kubelet's start. A stream counts when it ends. The
// result is nil for a server without metrics.
func (c *Cluster) Calls(ctx context.Context) (map[string]int, error) {
	if c.Server.Metrics == nil {
		return nil, nil
	}
	calls, err := c.Server.Metrics.Calls(ctx)
	if err != nil {
		return nil, err
	}
	for method, before := range c.callsBefore {
		if calls[method] -= before; calls[method] == 0 {
			delete(calls, method)
		}
	}
	return calls, nil
}
