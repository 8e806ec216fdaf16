"""How often audits in one run of a sound mechanism fail, by simulation."""

from p2p_sim.privacy.audit_statistics.one_run_plan import plan_one_run


def false_alarms(attack, account) -> tuple[int, int]:
    """Of 1,000 audits with 1,000 targets each, how many fail at error .01, and at error 1e-9."""
    epsilons = account.tested()
    certified, pilot = account.deltas(epsilons), attack.sample(20_000, 1, ())
    bound = account.bound(1e-5).epsilon_upper
    plans = [
        plan_one_run(pilot, epsilons, 1e-5, trials=1000, error=error, exact=attack.exact) for error in (0.01, 1e-9)
    ]
    alarms = [0, 0]
    for seed in range(1000):
        seen = attack.sample(1000, 100 + seed, ())
        for i, plan in enumerate(plans):
            deltas, epsilon = plan.bounds([event.guesses(seen) for event in plan.events])
            alarms[i] += bool((deltas > certified).any() or epsilon > bound)
    return alarms[0], alarms[1]
