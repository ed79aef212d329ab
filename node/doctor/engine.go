package doctor

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/spec"
)

// askTime bounds a question to another program.
const askTime = 10 * time.Second

func lookEngine(_ context.Context, p *patient) Finding {
	v, err := p.engine()
	switch {
	case container.NoCommand(err):
		return bad(p.without(), "install Docker Engine (docker.io on Debian); fabrics of processes need none", "there is no docker command")
	case err != nil:
		wayOut := ""
		if host := os.Getenv("DOCKER_HOST"); host != "" {
			wayOut = "DOCKER_HOST is " + host + ": is that right?"
		}
		return bad(p.without(), wayOut, "%v", err)
	}
	return ok("engine %s, client %s", v.Server, v.Client)
}

// noEngine is the finding of a check that needs an engine, where none answers.
func noEngine(p *patient) (Finding, bool) {
	if _, err := p.engine(); err != nil {
		return bad(p.without(), "see 'docker engine'", "not known, as no engine answers"), true
	}
	return Finding{}, false
}

func lookBuilder(ctx context.Context, p *patient) Finding {
	if f, none := noEngine(p); none {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	version, err := container.BuildxVersion(ctx)
	switch {
	case err == nil:
		return ok("BuildKit, by %s; 'scripts/image' needs none", version)
	case os.Getenv("DOCKER_BUILDKIT") == "1":
		return bad(p.without(), "unset DOCKER_BUILDKIT, or install buildx", "DOCKER_BUILDKIT=1 asks for BuildKit, and there is no buildx")
	}
	return ok("the classic builder, which is enough for 'scripts/image' and docker/Dockerfile")
}

func lookCompose(ctx context.Context, p *patient) Finding {
	command, err := container.ComposeCommand(ctx)
	if err != nil {
		return bad(p.without(), "install docker-compose (Debian), or docker-compose-plugin (Docker's packages)", "%v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	name := strings.Join(command, " ")
	version, err := container.ComposeVersion(ctx, command)
	if err != nil {
		return bad(p.without(), "see 'docker engine'", "%s: %v", name, err)
	}
	return ok("%s: %s", name, version)
}

func lookImage(ctx context.Context, p *patient) Finding {
	if f, none := noEngine(p); none {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	i, missing, err := container.FindImage(ctx, p.Image)
	switch {
	case missing:
		return bad(p.without(), "'scripts/image' builds it, in the sources; --image names another image", "there is no image %s", p.Image)
	case err != nil:
		return bad(p.without(), "", "image %s: %v", p.Image, err)
	}
	return ok("%s: %.12s, %d MiB, %s", p.Image, i.ID, i.Bytes>>20, i.Architecture)
}

func lookNetworks(ctx context.Context, p *patient) Finding {
	if f, none := noEngine(p); none {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	ids, err := container.BridgeIDs(ctx)
	if err != nil {
		return bad(p.without(), "", "%v", err)
	}
	nets, err := container.Networks(ctx, ids)
	if err != nil {
		return bad(Warning, "", "the engine's networks cannot be read: %v", err) // one may have gone meanwhile
	}
	name, mtu := uplink()
	return judgeNetworks(nets, p.chips(), p.Runtime == spec.Docker, name, mtu)
}

// judgeNetworks weighs the engine's bridges against the interface to other
// machines, and the chips against what a bridge takes. wanted says that the fabric
// is to run in containers. uplink is "" and most, its MTU, 0 where there is no such interface.
func judgeNetworks(nets []container.Network, chips int, wanted bool, uplink string, most int) Finding {
	var mtus, wide []string
	for i := range nets {
		mtu := nets[i].MTU()
		text := nets[i].Name + " " + strconv.Itoa(mtu)
		mtus = append(mtus, text)
		if most > 0 && mtu > most {
			wide = append(wide, text)
		}
	}
	switch {
	case chips > container.MaxContainers && wanted:
		return bad(Failure, "several machines, by 'ttfabric stack', or '--runtime process'", "%d chips: a bridge takes %d containers", chips, container.MaxContainers)
	case chips > container.MaxContainers:
		return bad(Warning, "'--runtime process', or several machines", "%d chips: a bridge takes %d containers", chips, container.MaxContainers)
	case len(wide) > 0:
		return bad(Warning, fmt.Sprintf("nothing while all chips are on this machine; otherwise \"mtu\": %d in /etc/docker/daemon.json, and 'up --mtu %d'", most, most),
			"MTU above the %d of %s, by which other machines are reached: %s", most, uplink, join(wide))
	}
	return ok("a bridge takes %d containers; MTU: %s", container.MaxContainers, join(mtus))
}
