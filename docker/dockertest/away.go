package dockertest

// Away takes the engine away: new and waiting calls fail with ErrUnavailable, and event and exec streams break.
// Containers go on. No event reports an Exit while the engine is away.
func (e *Engine) Away() {
	e.disconnect()
	e.log.breakStreams()
}

func (e *Engine) disconnect() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away {
		return
	}
	e.away = true
	close(e.gone)
	for _, x := range e.execs {
		x.output.end()
	}
	for _, c := range e.containers {
		c.endAttachments()
	}
}

// Back brings the engine back. Containers that ended meanwhile then show as ended. The engine has forgotten all earlier
// events, and publishes no die event that was still due. A closed engine stays away.
func (e *Engine) Back() {
	e.log.forget()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away && !e.closed {
		for _, c := range e.containers {
			e.settle(c) // no event comes while the engine is away
		}
		e.away = false
		e.gone = make(chan struct{})
	}
}

// Crash takes the engine away as a kill of dockerd does. The engine forgets the commands in containers. Without
// LiveRestore, its containers are killed with it.
func (e *Engine) Crash() {
	e.Away()
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.execs)
	if e.features.LiveRestore {
		return
	}
	for _, c := range e.containers {
		e.exit(c, killed)
	}
}
